package acidctl;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;

/** The metastore's transaction tables by SQL, for what Hive before 4 has no call for. */
final class TransactionTables {
    private TransactionTables() {}

    /** Lets the next transaction be `first`, which must be above all before it. */
    static void seed(long first) throws SQLException {
        execute("update NEXT_TXN_ID set NTXN_NEXT = " + first + " where NTXN_NEXT < " + first);
    }

    /** Removes aborted transactions, which else stand in every later list; their tables must be gone. */
    static void forgetAborted() throws SQLException {
        execute("delete from TXN_COMPONENTS where TC_TXNID in (select TXN_ID from TXNS where TXN_STATE = 'a')");
        execute("delete from TXNS where TXN_STATE = 'a'");
    }

    private static void execute(String sql) throws SQLException {
        try (Connection connection = DriverManager.getConnection("jdbc:derby:memory:metastore");
                Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }
}
