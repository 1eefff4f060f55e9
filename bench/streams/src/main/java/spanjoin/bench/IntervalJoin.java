package spanjoin.bench;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * spanjoin's benchmark in Kafka Streams: a windowed inner join of two streams, exactly once.
 *
 * <p>A left event is a moment and a right one an interval of `reach.ms` around a moment, so two of
 * them overlap exactly when their moments are at most `reach.ms` apart, which is the window.
 *
 * <p>Every argument is `name=value`. Its own names are left, right, output (topics), reach.ms,
 * grace.ms, match.header (hexadecimal, put before every match), leave (whether SIGTERM leaves the
 * group, true by default) and gate (a path: it fetches, but processes only while there is a file);
 * any other is a property of Kafka Streams or its clients.
 *
 * <p>It prints a line at each change, times in ms since 1970: STATE name time; TASKS time and the
 * active tasks, whenever it is running; RESTORING topic partition from to time; RESTORED topic
 * partition records time. SIGTERM ends it in order.
 */
public final class IntervalJoin {
    private static final Duration CLOSE_WITHIN = Duration.ofSeconds(30);
    private static final long GATE_LOOK_MS = 5;

    private IntervalJoin() {}

    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = settings(arguments);
        KafkaStreams streams = new KafkaStreams(topology(settings), settings);
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener(
                (now, before) -> {
                    say("STATE " + now + " " + System.currentTimeMillis());
                    if (now == KafkaStreams.State.RUNNING) {
                        say("TASKS " + System.currentTimeMillis() + tasks(streams));
                    } else if (now == KafkaStreams.State.ERROR) {
                        ended.countDown();
                    }
                });
        streams.setGlobalStateRestoreListener(new RestoreReport());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(streams, settings)));
        String gate = settings.getProperty("gate");
        if (gate != null) {
            Thread watch = new Thread(() -> watch(streams, Path.of(gate)), "gate");
            watch.setDaemon(true);
            watch.start();
        }
        streams.start();
        ended.await();
        System.exit(1);
    }

    private static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "100");
        settings.put("auto.offset.reset", "earliest");
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            if (parts.length != 2) {
                throw new IllegalArgumentException("not name=value: " + argument);
            }
            settings.put(parts[0], parts[1]);
        }
        return settings;
    }

    private static Topology topology(Properties settings) {
        StreamsBuilder builder = new StreamsBuilder();
        Serde<byte[]> bytes = Serdes.ByteArray();
        byte[] header = HexFormat.of().parseHex(settings.getProperty("match.header"));
        Consumed<byte[], Event> read =
                Consumed.with(bytes, Event.SERDE)
                        .withTimestampExtractor((record, time) -> ((Event) record.value()).ts());
        KStream<byte[], Event> left = builder.stream(settings.getProperty("left"), read);
        KStream<byte[], Event> right = builder.stream(settings.getProperty("right"), read);
        left.join(
                        right,
                        (one, other) ->
                                KeyValue.pair(
                                        Event.matchId(one, other),
                                        Event.matchValue(header, one, other)),
                        JoinWindows.ofTimeDifferenceAndGrace(
                                milliseconds(settings, "reach.ms"),
                                milliseconds(settings, "grace.ms")),
                        StreamJoined.with(bytes, Event.SERDE, Event.SERDE).withName("join")
                                .withStoreName("rows"))
                .map((key, match) -> match)
                .to(settings.getProperty("output"), Produced.with(bytes, bytes));
        return builder.build();
    }

    private static Duration milliseconds(Properties settings, String name) {
        return Duration.ofMillis(Long.parseLong(settings.getProperty(name)));
    }

    private static String tasks(KafkaStreams streams) {
        TreeSet<String> tasks = new TreeSet<>();
        streams.metadataForLocalThreads()
                .forEach(
                        thread ->
                                thread.activeTasks()
                                        .forEach(task -> tasks.add(task.taskId().toString())));
        return tasks.isEmpty() ? "" : " " + String.join(" ", tasks);
    }

    private static void close(KafkaStreams streams, Properties settings) {
        boolean leave = Boolean.parseBoolean(settings.getProperty("leave", "true"));
        streams.close(
                CloseOptions.groupMembershipOperation(
                                leave
                                        ? CloseOptions.GroupMembershipOperation.LEAVE_GROUP
                                        : CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP)
                        .withTimeout(CLOSE_WITHIN));
    }

    private static void watch(KafkaStreams streams, Path gate) {
        boolean open = true;
        try {
            while (streams.state() != KafkaStreams.State.RUNNING) {
                Thread.sleep(GATE_LOOK_MS); // Paused before, its tasks would never come up.
            }
            while (true) {
                if (Files.exists(gate) != open) {
                    open = !open;
                    if (open) {
                        streams.resume();
                    } else {
                        streams.pause();
                    }
                }
                Thread.sleep(GATE_LOOK_MS);
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static final class RestoreReport implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition where, String store, long from, long to) {
            say(line("RESTORING", where) + " " + from + " " + to + now());
        }

        @Override
        public void onBatchRestored(TopicPartition where, String store, long to, long records) {}

        @Override
        public void onRestoreEnd(TopicPartition where, String store, long records) {
            say(line("RESTORED", where) + " " + records + now());
        }

        private static String line(String what, TopicPartition where) {
            return what + " " + where.topic() + " " + where.partition();
        }

        private static String now() {
            return " " + System.currentTimeMillis();
        }
    }
}
