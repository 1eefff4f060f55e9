package spanjoin.bench;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/**
 * One input: the fields that the join needs, and the bytes as they came.
 *
 * <p>The default event schema in Avro's single-object encoding, walked by hand, which is the
 * quickest way: ten bytes of header, then id, ts, start, end, of which the rest is not looked at.
 * A store keeps the bytes as they are.
 */
record Event(byte[] bytes, String id, long ts, long start, long end) {
    private static final int HEADER_SIZE = 10;

    static final Serde<Event> SERDE =
            Serdes.serdeFrom(
                    (topic, event) -> event == null ? null : event.bytes,
                    (topic, bytes) -> bytes == null ? null : decode(bytes));

    static Event decode(byte[] bytes) {
        ByteBuffer rest = ByteBuffer.wrap(bytes);
        rest.position(HEADER_SIZE);
        int size = (int) decodeLong(rest);
        String id = new String(bytes, rest.position(), size, StandardCharsets.UTF_8);
        rest.position(rest.position() + size);
        return new Event(bytes, id, decodeLong(rest), decodeLong(rest), decodeLong(rest));
    }

    /** The key of the match of these two: ids with % and | escaped, as spanjoin writes them. */
    static byte[] matchId(Event left, Event right) {
        return ("L:" + escaped(left.id) + "|R:" + escaped(right.id))
                .getBytes(StandardCharsets.UTF_8);
    }

    /** The match of these two: header, both ends of the overlap, both inputs without headers. */
    static byte[] matchValue(byte[] header, Event left, Event right) {
        int sides = left.bytes.length + right.bytes.length - 2 * HEADER_SIZE;
        ByteBuffer match = ByteBuffer.allocate(header.length + 20 + sides);
        match.put(header);
        encodeLong(match, Math.max(left.start, right.start));
        encodeLong(match, Math.min(left.end, right.end));
        match.put(left.bytes, HEADER_SIZE, left.bytes.length - HEADER_SIZE);
        match.put(right.bytes, HEADER_SIZE, right.bytes.length - HEADER_SIZE);
        return Arrays.copyOf(match.array(), match.position());
    }

    private static String escaped(String id) {
        if (id.indexOf('%') < 0 && id.indexOf('|') < 0) {
            return id;
        }
        return id.replace("%", "%25").replace("|", "%7C");
    }

    private static long decodeLong(ByteBuffer from) {
        long zigzag = 0;
        int shift = 0;
        byte part;
        do {
            part = from.get();
            zigzag |= (long) (part & 0x7f) << shift;
            shift += 7;
        } while (part < 0);
        return zigzag >>> 1 ^ -(zigzag & 1);
    }

    private static void encodeLong(ByteBuffer to, long number) {
        long zigzag = number << 1 ^ number >> 63;
        while ((zigzag & ~0x7fL) != 0) {
            to.put((byte) (zigzag | 0x80));
            zigzag >>>= 7;
        }
        to.put((byte) zigzag);
    }
}
