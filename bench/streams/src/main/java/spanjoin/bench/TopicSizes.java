package spanjoin.bench;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;

/**
 * Prints "topic bytes" for every topic: what its partitions take on the brokers' disks. The
 * benchmark's own Kafka client has no such request.
 *
 * <p>Argument: the bootstrap servers.
 */
public final class TopicSizes {
    private TopicSizes() {}

    public static void main(String[] arguments) throws ExecutionException, InterruptedException {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            var nodes = admin.describeCluster().nodes().get();
            var brokers = nodes.stream().map(node -> node.id()).toList();
            TreeMap<String, Long> sizes = new TreeMap<>();
            for (var directories : admin.describeLogDirs(brokers).allDescriptions().get().values()) {
                for (var directory : directories.values()) {
                    directory
                            .replicaInfos()
                            .forEach((at, info) -> sizes.merge(at.topic(), info.size(), Long::sum));
                }
            }
            sizes.forEach((topic, bytes) -> System.out.println(topic + " " + bytes));
        }
    }
}
