package acidctl;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.server.ServerContext;
import org.apache.thrift.server.TServer;
import org.apache.thrift.server.TServerEventHandler;
import org.apache.thrift.transport.TTransport;

/** Knows the open connections of a Thrift server, and leaves all else to the handler it had before, if any. */
class Connections implements TServerEventHandler {
    private final Set<TTransport> open = ConcurrentHashMap.newKeySet();
    private final TServerEventHandler hive;

    Connections(TServer server) {
        hive = server.getEventHandler();
        server.setServerEventHandler(this);
    }

    void cut() {
        open.forEach(TTransport::close);
    }

    @Override
    public void preServe() {
        if (hive != null) {
            hive.preServe();
        }
    }

    @Override
    public ServerContext createContext(TProtocol input, TProtocol output) {
        open.add(input.getTransport());
        return hive == null ? null : hive.createContext(input, output);
    }

    @Override
    public void deleteContext(ServerContext context, TProtocol input, TProtocol output) {
        open.remove(input.getTransport());
        if (hive != null) {
            hive.deleteContext(context, input, output);
        }
    }

    @Override
    public void processContext(ServerContext context, TTransport input, TTransport output) {
        if (hive != null) {
            hive.processContext(context, input, output);
        }
    }
}
