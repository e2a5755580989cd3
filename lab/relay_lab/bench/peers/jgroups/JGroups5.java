import org.jgroups.Address;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.util.MessageBatch;

/** A member on JGroups 5. */
public final class JGroups5 extends BenchMember implements Receiver {
    private final JChannel channel;

    private JGroups5(String[] arguments) throws Exception {
        super(arguments);
        channel = new JChannel(arguments[4]);
        channel.setReceiver(this);
        channel.connect(arguments[5]);
    }

    @Override
    void multicast(byte[] payload) throws Exception {
        channel.send(new BytesMessage(null, payload));
    }

    @Override
    void unicast(Object target, byte[] payload) throws Exception {
        channel.send(new BytesMessage((Address) target, payload));
    }

    @Override
    Object other() {
        return channel.getView().getMembers().stream().filter(each -> !each.equals(channel.getAddress())).findFirst().get();
    }

    @Override
    public void receive(MessageBatch batch) {
        for (Message message : batch) receive(message);
    }

    @Override
    public void receive(Message message) {
        if (!message.hasArray()) return;
        try {
            take(message.getArray(), message.getOffset(), message.getLength(), message.getSrc());
        } catch (Exception failed) {
            failed.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    public static void main(String[] arguments) {
        start(() -> new JGroups5(arguments));
    }
}
