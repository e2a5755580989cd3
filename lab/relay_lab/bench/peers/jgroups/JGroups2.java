import java.io.File;
import org.jgroups.Address;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.ReceiverAdapter;

/** A member on JGroups 2.12. */
public final class JGroups2 extends BenchMember {
    private final JChannel channel;

    private JGroups2(String[] arguments) throws Exception {
        super(arguments);
        channel = new JChannel(new File(arguments[4]));
        channel.setReceiver(new ReceiverAdapter() {
            @Override
            public void receive(Message message) {
                if (message.getRawBuffer() == null) return;
                try {
                    take(message.getRawBuffer(), message.getOffset(), message.getLength(), message.getSrc());
                } catch (Exception failed) {
                    failed.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
            }
        });
        channel.connect(arguments[5]);
    }

    @Override
    void multicast(byte[] payload) throws Exception {
        channel.send(new Message(null, null, payload));
    }

    @Override
    void unicast(Object target, byte[] payload) throws Exception {
        channel.send(new Message((Address) target, null, payload));
    }

    @Override
    Object other() {
        // Its list of members can be walked through, but seems empty to a stream.
        for (Address each : channel.getView().getMembers()) if (!each.equals(channel.getAddress())) return each;
        throw new IllegalStateException("there is no other member");
    }

    public static void main(String[] arguments) {
        start(() -> new JGroups2(arguments));
    }
}
