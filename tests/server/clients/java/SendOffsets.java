import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Moves the records of topic "in" to topic "out", each exactly once; every third transaction is aborted and repeated. */
public class SendOffsets {
    public static void main(String[] args) {
        String bootstrap = args[0];
        int records = Integer.parseInt(args[1]);
        Properties reading = new Properties();
        reading.put("bootstrap.servers", bootstrap);
        reading.put("group.id", "mover");
        reading.put("group.instance.id", "mover-1");
        reading.put("isolation.level", "read_committed");
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        reading.put("max.poll.records", "7");
        reading.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        reading.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        Properties writing = new Properties();
        writing.put("bootstrap.servers", bootstrap);
        writing.put("transactional.id", "mover-tx");
        writing.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        writing.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        int moved = 0;
        int turn = 0;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading);
                KafkaProducer<String, String> producer = new KafkaProducer<>(writing)) {
            producer.initTransactions();
            consumer.subscribe(List.of("in"));
            while (moved < records) {
                ConsumerRecords<String, String> found = consumer.poll(Duration.ofMillis(200));
                if (found.isEmpty()) {
                    continue;
                }
                System.out.println("turn " + ++turn);
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                Map<TopicPartition, Long> first = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<String, String> one : found) {
                    TopicPartition at = new TopicPartition(one.topic(), one.partition());
                    first.putIfAbsent(at, one.offset());
                    offsets.put(at, new OffsetAndMetadata(one.offset() + 1));
                    producer.send(new ProducerRecord<>("out", one.value()));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (turn % 3 == 0) {
                    producer.abortTransaction();
                    first.forEach(consumer::seek);
                } else {
                    producer.commitTransaction();
                    moved += found.count();
                }
            }
        }
        System.out.println("moved " + moved);
    }
}
