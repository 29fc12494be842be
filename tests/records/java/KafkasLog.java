import java.io.File;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Opens partition directories as a broker does after a crash, and runs Kafka's log cleaner on each, once for each time
 * given: KafkasLog SEGMENT_BYTES DELETE_RETENTION_MS TIME,TIME,... DIRECTORY...
 * Prints for each directory the log's end and its last stable offset.
 */
public class KafkasLog {
    static class Stopped implements Time {
        long now;

        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long ms) {
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        }
    }

    public static void main(String[] args) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1, true);
        scheduler.startup();
        for (int at = 3; at < args.length; at++) {
            clean(new File(args[at]), args, scheduler);
        }
        scheduler.shutdown();
    }

    static void clean(File directory, String[] args, KafkaScheduler scheduler) throws Exception {
        Stopped time = new Stopped();
        // "internal.": for tests, without the lower bound of 1 MiB.
        LogConfig config = new LogConfig(Map.of("cleanup.policy", "compact", "internal.segment.bytes", args[0],
            "delete.retention.ms", args[1], "file.delete.delay.ms", "0"));
        UnifiedLog log = UnifiedLog.create(directory, config, 0L, 0L, scheduler, new BrokerTopicStats(), time,
            900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), false,
            Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        System.out.println(log.logEndOffset() + " " + log.lastStableOffset());
        for (String now : args[2].isEmpty() ? new String[0] : args[2].split(",")) {
            time.now = Long.parseLong(now);
            log.removeExpiredProducers(1L << 60);
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 20), 1 << 20, 1 << 20, 0.9,
                new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner", "bytes", Time.SYSTEM), time, partition -> { });
            long until = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
            cleaner.doClean(new LogToClean(log, 0L, until, false), time.now);
        }
        log.close();
    }
}
