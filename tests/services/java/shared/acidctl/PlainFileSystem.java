package acidctl;

import java.net.URI;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;

/** The local file system without `.crc` files, which a table on HDFS would not have either. */
public final class PlainFileSystem extends LocalFileSystem {
    @Override
    public void initialize(URI name, Configuration conf) throws java.io.IOException {
        super.initialize(name, conf);
        setVerifyChecksum(false);
        setWriteChecksum(false);
    }
}
