import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One process of a comparison: the lines in and out, the messages and the checks are those of {@code peers/member.py}.
 * What differs between the versions of JGroups is in a subclass. Arguments: number, members, asker, answerer, stack, group.
 */
abstract class BenchMember {
    static final byte PROBE = 'p', DATA = 'd', QUESTION = '?', ANSWER = '!', OWN = '=';
    static final byte FILLER = (byte) 0xa5;
    static final int HEADER = 16, SAMPLED = 16, STAMP_MESSAGES = 16;
    /** Multicasts before a question about the own delivery: SEQUENCER confirms its first ones singly. */
    static final int PRIMING = 40;
    static final long PROBE_MS = 50, QUIET_MS = 500, LOST_S = 30;
    private static final Pattern FIELD = Pattern.compile("\"(\\w+)\": *\"?([^\",}]*)");

    /** What came from one member. JGroups delivers the messages of a sender one after the other. */
    private static final class Origin {
        final AtomicLong delivered = new AtomicLong(), wrong = new AtomicLong();
        volatile boolean heard;
        int expected;
        long[] latencies = new long[1024];
        int taken;
        int window;
    }

    final int number, members, asker, answerer;
    private final Origin[] origins;
    /** Odd while a window is open: latencies belong to the window in which they were taken. */
    private volatile int window;
    private int next;

    private volatile byte[] question;
    private volatile long asked, begins, ends;
    private volatile CountDownLatch answered;
    private long[] trips = new long[1024];
    private int taken;
    private final AtomicLong wrongAnswers = new AtomicLong();
    private volatile String trip;

    BenchMember(String[] arguments) {
        number = Integer.parseInt(arguments[0]);
        members = Integer.parseInt(arguments[1]);
        asker = Integer.parseInt(arguments[2]);
        answerer = Integer.parseInt(arguments[3]);
        origins = new Origin[members];
        for (int i = 0; i < members; i++) origins[i] = new Origin();
    }

    /** To all members, this one included, and to those of the other site. */
    abstract void multicast(byte[] payload) throws Exception;

    /** To one member, by what {@link #take} was given as its address. */
    abstract void unicast(Object target, byte[] payload) throws Exception;

    /** Another member of the site. */
    abstract Object other();

    /** Called with each message that arrives. */
    final void take(byte[] data, int offset, int length, Object source) throws Exception {
        switch (data[offset]) {
            case DATA -> count(data, offset, length);
            case PROBE -> origins[data[offset + 1]].heard = true;
            case QUESTION -> {
                if (number == answerer) {
                    byte[] answer = Arrays.copyOfRange(data, offset, offset + length);
                    answer[0] = ANSWER;
                    unicast(source, answer);
                }
            }
            case ANSWER -> end(data, offset, length);
            case OWN -> {
                if (number == asker) end(data, offset, length);
            }
            default -> throw new IllegalStateException("kind " + data[offset]);
        }
    }

    private void count(byte[] data, int offset, int length) {
        ByteBuffer header = ByteBuffer.wrap(data, offset, length).order(ByteOrder.LITTLE_ENDIAN);
        Origin origin = origins[header.get(offset + 1)];
        int count = header.getInt(offset + 4);
        if (count != origin.expected || header.getShort(offset + 2) != (short) length)
            origin.wrong.lazySet(origin.wrong.get() + 1);
        origin.expected = count + 1;
        origin.delivered.lazySet(origin.delivered.get() + 1);
        if (count % SAMPLED != 0) return;
        for (int i = offset + HEADER; i < offset + length; i++)
            if (data[i] != FILLER) {
                origin.wrong.lazySet(origin.wrong.get() + 1);
                break;
            }
        int now = window;
        if (now % 2 == 0) return;
        if (origin.window != now) {
            origin.window = now;
            origin.taken = 0;
        }
        if (origin.taken == origin.latencies.length) origin.latencies = Arrays.copyOf(origin.latencies, origin.taken * 2);
        origin.latencies[origin.taken++] = System.nanoTime() - header.getLong(offset + 8);
    }

    private byte[] payload(byte kind, int size, int count, long now) {
        byte[] data = new byte[size];
        Arrays.fill(data, HEADER, size, FILLER);
        ByteBuffer header = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        header.put(0, kind).put(1, (byte) number).putShort(2, (short) size).putInt(4, count).putLong(8, now);
        return data;
    }

    /** Run a member until standard input ends; whatever goes wrong ends the process, for JGroups' threads would keep it. */
    static void start(Callable<? extends BenchMember> maker) {
        try {
            BenchMember member = maker.call();
            member.run();
        } catch (Throwable failed) {
            failed.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private void run() throws Exception {
        say("{}");
        LinkedBlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(lines));
        reader.setDaemon(true);
        reader.start();
        meet(lines);
        for (String line; !(line = lines.take()).isEmpty(); ) {
            int size = Integer.parseInt(field(line, "size"));
            double warmUp = Double.parseDouble(field(line, "warm_up_s")), length = Double.parseDouble(field(line, "window_s"));
            trip = field(line, "trip");
            if (trip.equals("null")) carry(size, warmUp, length, field(line, "rate").equals("null"));
            else ask(size, warmUp, length);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void read(LinkedBlockingQueue<String> lines) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line; (line = in.readLine()) != null; ) lines.add(line);
        } catch (java.io.IOException closed) {
            // as if it had ended
        }
        lines.add("");
    }

    /** Probe until the first load arrives, also after all members have answered: others may receive later. */
    private void meet(LinkedBlockingQueue<String> lines) throws Exception {
        boolean complete = false;
        while (lines.isEmpty()) {
            multicast(payload(PROBE, HEADER, 0, 0));
            if (!complete && Arrays.stream(origins).allMatch(each -> each.heard)) {
                complete = true;
                say("{}");
            }
            Thread.sleep(PROBE_MS);
        }
    }

    private void carry(int size, double warmUp, double length, boolean sends) throws Exception {
        boolean[] stop = new boolean[1];
        Thread sender = new Thread(() -> flood(size, stop));
        if (sends) sender.start();
        Thread.sleep((long) (warmUp * 1000));
        window++;
        long before = delivered(), began = System.nanoTime(), used = used();
        Thread.sleep((long) (length * 1000));
        long during = delivered() - before;
        double seconds = (System.nanoTime() - began) / 1e9, spent = (used() - used) / 1e9;
        int measured = window++;
        synchronized (stop) {
            stop[0] = true;
        }
        sender.join();
        for (long last = -1; last != delivered(); Thread.sleep(QUIET_MS)) last = delivered();
        long[] latencies = Arrays.stream(origins).filter(each -> each.window == measured)
            .flatMapToLong(each -> Arrays.stream(each.latencies, 0, each.taken)).sorted().toArray();
        long wrong = Arrays.stream(origins).mapToLong(each -> each.wrong.get()).sum();
        say(String.format(Locale.ROOT,
            "{\"delivered\": %d, \"seconds\": %.6f, \"cpu_s\": %.6f, \"p50_us\": %s, \"p99_us\": %s, \"wrong\": %d}",
            during, seconds, spent, percentile(latencies, 50), percentile(latencies, 99), wrong));
    }

    private void flood(int size, boolean[] stop) {
        try {
            while (true) {
                synchronized (stop) {
                    if (stop[0]) return;
                }
                long now = System.nanoTime();
                for (int i = 0; i < STAMP_MESSAGES; i++) multicast(payload(DATA, size, next++, now));
            }
        } catch (Exception failed) {
            failed.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** The CPU time of this process in nanoseconds, its compiler and collector included. */
    private static long used() {
        return ProcessHandle.current().info().totalCpuDuration().map(java.time.Duration::toNanos).orElse(0L);
    }

    private long delivered() {
        return Arrays.stream(origins).mapToLong(each -> each.delivered.get()).sum();
    }

    /** One question at a time. The next one is asked where the answer is taken, so that no thread has to be woken for it. */
    private void ask(int size, double warmUp, double length) throws Exception {
        if (trip.equals("own")) for (int i = 0; i < PRIMING; i++) multicast(payload(PROBE, HEADER, 0, 0));
        question = new byte[size];
        question[0] = trip.equals("own") ? OWN : QUESTION;
        taken = 0;
        CountDownLatch done = new CountDownLatch(1);
        answered = done;
        begins = System.nanoTime() + (long) (warmUp * 1e9);
        ends = begins + (long) (length * 1e9);
        next();
        if (!done.await((long) (warmUp + length) + LOST_S, TimeUnit.SECONDS)) throw new IllegalStateException("no answer");
        long[] ordered = Arrays.copyOf(trips, taken);
        Arrays.sort(ordered);
        say(String.format(Locale.ROOT, "{\"trips\": %d, \"p50_us\": %s, \"p90_us\": %s, \"p99_us\": %s, \"wrong\": %d}",
            taken, percentile(ordered, 50), percentile(ordered, 90), percentile(ordered, 99), wrongAnswers.get()));
    }

    private void next() throws Exception {
        asked = System.nanoTime();
        byte[] copy = question.clone();
        if (trip.equals("unicast")) unicast(other(), copy);
        else multicast(copy);
    }

    private void end(byte[] data, int offset, int length) throws Exception {
        long now = System.nanoTime();
        if (!Arrays.equals(data, offset + 1, offset + length, question, 1, question.length)) wrongAnswers.incrementAndGet();
        if (asked >= begins) {
            if (taken == trips.length) trips = Arrays.copyOf(trips, taken * 2);
            trips[taken++] = now - asked;
        }
        if (now < ends) next();
        else answered.countDown();
    }

    private static String percentile(long[] ordered, int percent) {
        if (ordered.length == 0) return "null";
        return String.format(Locale.ROOT, "%.3f", ordered[(int) ((long) ordered.length * percent / 100)] / 1e3);
    }

    private static String field(String line, String name) {
        for (Matcher found = FIELD.matcher(line); found.find(); ) if (found.group(1).equals(name)) return found.group(2);
        throw new IllegalArgumentException(name + " is missing in " + line);
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
