package org.apache.kafka.coordinator.group;

import java.util.*;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

/**
 * Kafka's own group coordinator does what bench/consumer_groups.py lets kgm's do. It forms the group; then each line in
 * asks for a round of heartbeats and one more member, and each line out is a work and its figures. Arguments:
 * milliseconds of heartbeats, members, topics, partitions of each.
 */
public class ConsumerBench extends BenchedCoordinator {
    private static final int INTERVAL_MS = 5000, REBALANCE_MS = 300_000, CALM_MS = 2000;

    private final List<String> topics = new ArrayList<>();
    private final int partitions;
    private final List<Client> clients = new ArrayList<>();
    private final RequestContext beating = context(ApiKeys.CONSUMER_GROUP_HEARTBEAT, 1);
    private long took = 0;
    private int requests = 0, ownedByAll = 0;
    private final Map<Integer, Integer> atEpoch = new HashMap<>();

    /** A consumer that takes over and gives up at once, and says so with a heartbeat of its own. */
    private class Client {
        final String id;
        int epoch = 0;
        int owned = 0;

        Client(String id) {
            this.id = id;
        }

        ConsumerGroupHeartbeatRequestData beat() {
            return new ConsumerGroupHeartbeatRequestData().setGroupId(GROUP).setMemberId(id).setMemberEpoch(epoch);
        }

        void join() {
            hear(send(beat().setRebalanceTimeoutMs(REBALANCE_MS).setSubscribedTopicNames(topics)
                .setServerAssignor("uniform").setTopicPartitions(List.of())));
        }

        void hear(ConsumerGroupHeartbeatResponseData reply) {
            atEpoch.merge(epoch, -1, Integer::sum);
            epoch = reply.memberEpoch();
            atEpoch.merge(epoch, 1, Integer::sum);
            if (reply.assignment() == null) return;
            List<ConsumerGroupHeartbeatRequestData.TopicPartitions> rows = new ArrayList<>();
            int before = owned;
            owned = 0;
            for (var row : reply.assignment().topicPartitions()) {
                owned += row.partitions().size();
                rows.add(new ConsumerGroupHeartbeatRequestData.TopicPartitions().setTopicId(row.topicId()).setPartitions(row.partitions()));
            }
            ownedByAll += owned - before;
            if (owned != before) hear(send(beat().setTopicPartitions(rows)));
        }
    }

    ConsumerBench(int members, int topicCount, int partitions) {
        super(Map.of());
        this.partitions = topicCount * partitions;
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int t = 0; t < topicCount; t++) {
            Uuid id = Uuid.randomUuid();
            topics.add("orders-" + t);
            delta.replay(new TopicRecord().setTopicId(id).setName("orders-" + t));
            for (int p = 0; p < partitions; p++) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(p).setReplicas(List.of(1)));
            }
        }
        MetadataImage image = delta.apply(new MetadataProvenance(1, 0, 0L, true));
        shard.onMetadataUpdate(new KRaftCoordinatorMetadataDelta(delta), new KRaftCoordinatorMetadataImage(image));
        for (int i = 0; i < members; i++) {
            Client client = new Client(Uuid.randomUuid().toString());
            clients.add(client);
            client.join();
        }
        untilReconciled(INTERVAL_MS);
    }

    private ConsumerGroupHeartbeatResponseData send(ConsumerGroupHeartbeatRequestData data) {
        long start = cpu();
        ConsumerGroupHeartbeatResponseData reply = finish(shard.consumerGroupHeartbeat(beating, data));
        took += cpu() - start;
        requests++;
        return reply;
    }

    private boolean isReconciled() {
        return ownedByAll == partitions && atEpoch.get(clients.get(0).epoch) == clients.size();
    }

    /** Everybody heartbeats in turn, evenly spread over the interval, until all have what they are to have; ms. */
    private long untilReconciled(long pause) {
        time.setCurrentTimeMs(time.milliseconds() + pause);
        long start = time.milliseconds();
        for (int i = 0; ; i++) {
            time.setCurrentTimeMs(start + (long) INTERVAL_MS * i / clients.size());
            Client client = clients.get(i % clients.size());
            client.hear(send(client.beat()));
            if (isReconciled()) return time.milliseconds() - start;
        }
    }

    private double heartbeats(long span) {
        List<ConsumerGroupHeartbeatRequestData> beats = new ArrayList<>();
        for (Client client : clients) beats.add(client.beat());
        return each(span, beats.size(), 1000, at -> {
            if (finish(shard.consumerGroupHeartbeat(beating, beats.get(at))).errorCode() != Errors.NONE.code()) {
                throw new IllegalStateException();
            }
        });
    }

    private void join() {
        time.setCurrentTimeMs(time.milliseconds() + CALM_MS);
        took = requests = 0;
        long before = written;
        Client client = new Client(Uuid.randomUuid().toString());
        clients.add(0, client);
        client.join();
        long target = took;
        long ms = untilReconciled(0);
        System.out.println("join " + ms + " " + took + " " + target + " " + requests + " " + (written - before));
    }

    public static void main(String[] args) throws Exception {
        long span = Long.parseLong(args[0]) * 1_000_000;
        ConsumerBench bench = new ConsumerBench(Integer.parseInt(args[1]), Integer.parseInt(args[2]), Integer.parseInt(args[3]));
        rounds(warmsUp -> {
            System.out.println("heartbeat " + bench.heartbeats(warmsUp ? 4 * span : span));
            bench.join();
        });
    }
}
