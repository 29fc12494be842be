package org.apache.kafka.coordinator.group;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorLoaderImpl;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorPlayback;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.MockCoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.MockCoordinatorTimer;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Loads a coordinator from a partition's directory with Kafka's own log and loader, once for each line of input:
 * ReloadBench DIRECTORY. Answers with a line: ms of the process's CPU time and of wall time for opening the log (as
 * after a crash), both again for loading the coordinator, and how many groups and members it then has.
 */
public class ReloadBench {
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] args) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1, true);
        scheduler.startup();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) System.out.println(once(new File(args[0]), scheduler));
        System.exit(0);
    }

    static String once(File directory, KafkaScheduler scheduler) throws Exception {
        long cpu = SYSTEM.getProcessCpuTime();
        long wall = System.nanoTime();
        UnifiedLog log = UnifiedLog.create(directory, new LogConfig(Map.of("cleanup.policy", "compact")), 0L, 0L,
            scheduler, new BrokerTopicStats(), Time.SYSTEM, 900_000, new ProducerStateManagerConfig(86_400_000, false),
            600_000, new LogDirFailureChannel(1), false, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        String opened = ms(SYSTEM.getProcessCpuTime() - cpu) + " " + ms(System.nanoTime() - wall);

        cpu = SYSTEM.getProcessCpuTime();
        wall = System.nanoTime();
        LogContext context = new LogContext();
        SnapshotRegistry snapshots = new SnapshotRegistry(context);
        TopicPartition partition = new TopicPartition("__consumer_offsets", 0);
        var metrics = new GroupCoordinatorMetrics();
        var metricsShard = metrics.newMetricsShard(snapshots, partition);
        var timer = new MockCoordinatorTimer<CoordinatorRecord>(Time.SYSTEM);
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(new HashMap<>());
        GroupMetadataManager groups = new GroupMetadataManager.Builder()
            .withSnapshotRegistry(snapshots).withLogContext(context).withTime(Time.SYSTEM).withTimer(timer)
            .withExecutor(new MockCoordinatorExecutor<>()).withConfig(config)
            .withMetadataImage(CoordinatorMetadataImage.EMPTY).withGroupCoordinatorMetricsShard(metricsShard)
            .withGroupConfigManager(GroupConfigManagerTest.createConfigManager()).withAuthorizerPlugin(Optional.empty())
            .withStreamsGroupAssignors(List.of()).build();
        OffsetMetadataManager offsets = new OffsetMetadataManager.Builder()
            .withLogContext(context).withSnapshotRegistry(snapshots).withTime(Time.SYSTEM)
            .withGroupMetadataManager(groups).withGroupCoordinatorConfig(config)
            .withMetadataImage(CoordinatorMetadataImage.EMPTY).withGroupCoordinatorMetricsShard(metricsShard).build();
        GroupCoordinatorShard shard = new GroupCoordinatorShard(
            context, groups, offsets, Time.SYSTEM, timer, config, metrics, metricsShard);
        var loader = new CoordinatorLoaderImpl<CoordinatorRecord>(Time.SYSTEM, asked -> Optional.of(log),
            asked -> Optional.of(log.logEndOffset()), new GroupCoordinatorRecordSerde(), 5 * 1024 * 1024, 16_384);
        loader.load(partition, new CoordinatorPlayback<>() {
            public void replay(long offset, long producerId, short producerEpoch, CoordinatorRecord record) {
                shard.replay(offset, producerId, producerEpoch, record);
            }

            public void replayEndTransactionMarker(long producerId, short producerEpoch, TransactionResult result) {
                shard.replayEndTransactionMarker(producerId, producerEpoch, result);
            }

            public void updateLastWrittenOffset(long offset) {
                snapshots.idempotentCreateSnapshot(offset);
            }

            public void updateLastCommittedOffset(long offset) {
                snapshots.deleteSnapshotsUpTo(offset);
            }
        }).get();
        shard.onLoaded(CoordinatorMetadataImage.EMPTY);
        String loaded = ms(SYSTEM.getProcessCpuTime() - cpu) + " " + ms(System.nanoTime() - wall);

        int members = 0;
        for (String id : groups.groupIds()) members += ((ClassicGroup) groups.group(id)).numMembers();
        String answer = opened + " " + loaded + " " + groups.groupIds().size() + " " + members;
        loader.close();
        log.close();
        return answer;
    }

    static long ms(long nanos) {
        return nanos / 1_000_000;
    }
}
