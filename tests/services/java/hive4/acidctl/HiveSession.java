package acidctl;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.lockmgr.HiveTxnManager;
import org.apache.hadoop.hive.ql.processors.CommandProcessorException;
import org.apache.hadoop.hive.ql.session.SessionState;

/** One Hive session: a thread of its own, since Hive binds session and transaction manager to the thread. */
public final class HiveSession implements AutoCloseable {
    private final ExecutorService thread;
    private final HiveConf conf;
    private IDriver driver;
    private boolean inTransaction;
    private List<String> names = Collections.emptyList();
    private String validTxns;
    private String readWriteIds;

    public HiveSession(String name, Map<String, String> settings) {
        thread = Executors.newSingleThreadExecutor(task -> {
            Thread created = new Thread(task, "hive-session-" + name);
            created.setDaemon(true);
            return created;
        });
        conf = new HiveConf();
        settings.forEach(conf::set);
        conf.set("list.sink.output.formatter", JsonFormatter.class.getName());
        conf.set("hive.exec.pre.hooks", WriteIdsNoted.class.getName());
        // START TRANSACTION is refused without it.
        conf.set("hive.in.test", "true");
        inThread(() -> {
            SessionState state = new SessionState(conf);
            state.setIsSilent(true);
            SessionState.start(state);
            return null;
        });
    }

    /** Changes a setting of this session. */
    public void set(String key, String value) {
        inThread(() -> {
            conf.set(key, value);
            SessionState.get().getConf().set(key, value);
            return null;
        });
    }

    /** Runs one statement; the driver is kept from START TRANSACTION to its end, as it is the transaction. */
    public void run(String sql) {
        inThread(() -> {
            execute(sql);
            finish();
            return null;
        });
    }

    /** Each row as the JSON texts of its columns between tabs; the names are in `columns()` afterwards. */
    public List<String> rows(String sql) {
        return inThread(() -> {
            JsonFormatter.VALID_TXNS.remove();
            WriteIdsNoted.LAST.remove();
            execute(sql);
            names = new ArrayList<>();
            for (FieldSchema field : driver.getSchema().getFieldSchemas()) {
                names.add(field.getName());
            }
            List<String> all = new ArrayList<>();
            List<String> part = new ArrayList<>();
            while (driver.getResults(part)) {
                all.addAll(part);
                part.clear();
            }
            validTxns = JsonFormatter.VALID_TXNS.get();
            readWriteIds = WriteIdsNoted.LAST.get();
            finish();
            return all;
        });
    }

    public List<String> columns() {
        return names;
    }

    /** The ValidTxnList that the last `rows` read with. */
    public String validTxns() {
        return validTxns;
    }

    /** The ValidTxnWriteIdList that the last `rows` read with, `own transaction$db.table:...`. */
    public String readWriteIds() {
        return readWriteIds;
    }

    /** The ValidTxnWriteIdList of these tables for a ValidTxnList, as a query's own compilation asks for it. */
    public String validWriteIds(List<String> tables, String txns) {
        return inThread(() -> transactions().getValidWriteIds(tables, txns).toString());
    }

    /** The ValidTxnList of a reader that comes now. */
    public String currentTxns() {
        return inThread(() -> transactions().getValidTxns().toString());
    }

    private HiveTxnManager transactions() throws Exception {
        return SessionState.get().initTxnMgr(conf);
    }

    @Override
    public void close() {
        inThread(() -> {
            if (driver != null) {
                driver.close();
                driver.destroy();
                driver = null;
            }
            SessionState.get().close();
            return null;
        });
        thread.shutdown();
    }

    private void execute(String sql) throws CommandProcessorException {
        if (driver == null) {
            driver = DriverFactory.newDriver(conf);
        }
        try {
            driver.run(sql);
        } catch (CommandProcessorException e) {
            inTransaction = false;
            finish();
            throw e;
        }
        String word = sql.trim().toLowerCase(Locale.ROOT);
        if (word.startsWith("start transaction")) {
            inTransaction = true;
        } else if (word.equals("commit") || word.equals("rollback")) {
            inTransaction = false;
        }
    }

    private void finish() {
        if (!inTransaction) {
            driver.close();
            driver.destroy();
            driver = null;
        }
    }

    <T> T inThread(Callable<T> task) {
        try {
            return thread.submit(task).get();
        } catch (ExecutionException e) {
            throw new IllegalStateException(String.valueOf(e.getCause().getMessage()), e.getCause());
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
