package acidctl;

import java.io.IOException;
import java.net.URI;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The local file system without `.crc` files, whose rename refuses an existing target as HDFS does. Hive 2.3 relies
 * on that when it looks for a free `_copy_N` name; the plain local rename would overwrite the earlier file.
 */
public final class HdfsLikeFileSystem extends LocalFileSystem {
    @Override
    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        setVerifyChecksum(false);
        setWriteChecksum(false);
    }

    @Override
    public boolean rename(Path source, Path target) throws IOException {
        return (!exists(target) || isDirectory(target)) && super.rename(source, target);
    }
}
