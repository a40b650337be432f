// Minimal interface of the Hive metastore (field ids are facts of Hive 4.0.1's wire format; 3.1.3 has the same ids, fewer fields)
enum TxnType { DEFAULT = 0, REPL_CREATED = 1, READ_ONLY = 2, COMPACTION = 3, MATER_VIEW_REBUILD = 4, SOFT_DELETE = 5, REBALANCE_COMPACTION = 6 }
enum TxnState { COMMITTED = 1, ABORTED = 2, OPEN = 3 }
enum LockType { SHARED_READ = 1, SHARED_WRITE = 2, EXCLUSIVE = 3, EXCL_WRITE = 4 }
enum LockLevel { DB = 1, TABLE = 2, PARTITION = 3 }
enum LockState { ACQUIRED = 1, WAITING = 2, ABORT = 3, NOT_ACQUIRED = 4 }
enum CompactionType { MINOR = 1, MAJOR = 2, REBALANCE = 3, ABORT_TXN_CLEANUP = 4 }
enum DataOperationType { SELECT = 1, INSERT = 2, UPDATE = 3, DELETE = 4, UNSET = 5, NO_TXN = 6 }

exception MetaException { 1: string message }
exception NoSuchObjectException { 1: string message }
exception InvalidObjectException { 1: string message }
exception UnknownDBException { 1: string message }
exception ConfigValSecurityException { 1: string message }
exception NoSuchTxnException { 1: string message }
exception TxnAbortedException { 1: string message }
exception TxnOpenException { 1: string message }
exception NoSuchLockException { 1: string message }

struct FieldSchema { 1: required string name, 2: required string type, 3: string comment }
struct SerDeInfo { 1: string name, 2: string serializationLib, 3: map<string,string> parameters }
struct Order { 1: required string col, 2: i32 order }
struct StorageDescriptor { 1: list<FieldSchema> cols, 2: string location, 3: string inputFormat, 4: string outputFormat, 5: bool compressed, 6: i32 numBuckets, 7: SerDeInfo serdeInfo, 8: list<string> bucketCols, 9: list<Order> sortCols, 10: map<string,string> parameters }
struct Table { 1: string tableName, 2: string dbName, 3: string owner, 4: i32 createTime, 7: required StorageDescriptor sd, 8: list<FieldSchema> partitionKeys, 9: map<string,string> parameters, 12: string tableType, 17: optional string catName, 19: optional i64 writeId, 22: optional byte accessType, 23: optional list<string> requiredReadCapabilities, 24: optional list<string> requiredWriteCapabilities, 25: optional i64 id }
struct Partition { 1: required list<string> values, 2: string dbName, 3: string tableName, 4: i32 createTime, 6: required StorageDescriptor sd, 7: map<string,string> parameters, 9: optional string catName, 10: optional i64 writeId }
struct Database { 1: string name, 2: string description, 3: string locationUri, 4: map<string,string> parameters, 6: optional string ownerName, 8: optional string catalogName, 10: optional string managedLocationUri }
enum ClientCapability { TEST_CAPABILITY = 1, INSERT_ONLY_TABLES = 2 }
struct ClientCapabilities { 1: required list<ClientCapability> values }
struct GetTableRequest { 1: required string dbName, 2: required string tblName, 3: optional ClientCapabilities capabilities, 4: optional string catName, 6: optional string validWriteIdList, 7: optional bool getColumnStats, 8: optional list<string> processorCapabilities, 9: optional string processorIdentifier }
struct GetTableResult { 1: required Table table }
struct GetPartitionsByNamesRequest { 1: required string db_name, 2: required string tbl_name, 3: optional list<string> names, 4: optional bool get_col_stats, 5: optional list<string> processorCapabilities, 6: optional string processorIdentifier, 8: optional string validWriteIdList, 11: optional bool skipColumnSchemaForPartition, 12: optional string includeParamKeyPattern, 13: optional string excludeParamKeyPattern }
struct GetPartitionsByNamesResult { 1: required list<Partition> partitions }

struct TxnInfo { 1: required i64 id, 2: required TxnState state, 3: required string user, 4: required string hostname, 5: optional string agentInfo, 6: optional i32 heartbeatCount, 7: optional string metaInfo, 8: optional i64 startedTime, 9: optional i64 lastHeartbeatTime }
struct GetOpenTxnsInfoResponse { 1: required i64 txn_high_water_mark, 2: required list<TxnInfo> open_txns }
struct GetOpenTxnsResponse { 1: required i64 txn_high_water_mark, 2: optional list<i64> open_txns, 3: optional i64 min_open_txn, 4: optional binary abortedBits }
struct GetOpenTxnsRequest { 1: optional list<TxnType> excludeTxnTypes }
struct OpenTxnRequest { 1: required i32 num_txns, 2: required string user, 3: required string hostname, 4: optional string agentInfo, 7: optional TxnType txn_type }
struct OpenTxnsResponse { 1: required list<i64> txn_ids }
struct AbortTxnRequest { 1: required i64 txnid, 3: optional TxnType txn_type, 4: optional i64 errorCode }
struct AbortTxnsRequest { 1: required list<i64> txn_ids, 2: optional i64 errorCode }
struct CommitTxnRequest { 1: required i64 txnid, 7: optional TxnType txn_type }
struct GetValidWriteIdsRequest { 1: required list<string> fullTableNames, 2: optional string validTxnList, 3: optional i64 writeId }
struct TableValidWriteIds { 1: required string fullTableName, 2: required i64 writeIdHighWaterMark, 3: required list<i64> invalidWriteIds, 4: optional i64 minOpenWriteId, 5: required binary abortedBits }
struct GetValidWriteIdsResponse { 1: required list<TableValidWriteIds> tblValidWriteIds }
struct AllocateTableWriteIdsRequest { 1: required string dbName, 2: required string tableName, 3: optional list<i64> txnIds }
struct TxnToWriteId { 1: required i64 txnId, 2: required i64 writeId }
struct AllocateTableWriteIdsResponse { 1: required list<TxnToWriteId> txnToWriteIds }
struct LockComponent { 1: required LockType type, 2: required LockLevel level, 3: required string dbname, 4: optional string tablename, 5: optional string partitionname, 6: optional DataOperationType operationType, 7: optional bool isTransactional, 8: optional bool isDynamicPartitionWrite }
struct LockRequest { 1: required list<LockComponent> component, 2: optional i64 txnid, 3: required string user, 4: required string hostname, 5: optional string agentInfo, 6: optional bool zeroWaitReadEnabled }
struct LockResponse { 1: required i64 lockid, 2: required LockState state, 3: optional string errorMessage }
struct CheckLockRequest { 1: required i64 lockid, 2: optional i64 txnid, 3: optional i64 elapsed_ms }
struct UnlockRequest { 1: required i64 lockid }
struct ShowLocksRequest { 1: optional string dbname, 2: optional string tablename, 3: optional string partname, 4: optional bool isExtended, 5: optional i64 txnid }
struct ShowLocksResponseElement { 1: required i64 lockid, 2: required string dbname, 3: optional string tablename, 4: optional string partname, 5: required LockState state, 6: required LockType type, 7: optional i64 txnid, 8: required i64 lastheartbeat, 9: optional i64 acquiredat, 10: required string user, 11: required string hostname, 12: optional i32 heartbeatCount, 13: optional string agentInfo, 14: optional i64 blockedByExtId, 15: optional i64 blockedByIntId, 16: optional i64 lockIdInternal }
struct ShowLocksResponse { 1: list<ShowLocksResponseElement> locks }
struct HeartbeatRequest { 1: optional i64 lockid, 2: optional i64 txnid }
struct HeartbeatTxnRangeRequest { 1: required i64 min, 2: required i64 max }
struct HeartbeatTxnRangeResponse { 1: required set<i64> aborted, 2: required set<i64> nosuch }
struct CompactionRequest { 1: required string dbname, 2: required string tablename, 3: optional string partitionname, 4: required CompactionType type, 5: optional string runas, 6: optional map<string,string> properties, 7: optional string initiatorId, 8: optional string initiatorVersion, 9: optional string poolName, 10: optional i32 numberOfBuckets, 11: optional string orderByClause }
struct CompactionResponse { 1: required i64 id, 2: required string state, 3: required bool accepted, 4: optional string errormessage }
struct CompactionInfoStruct { 1: required i64 id, 2: required string dbname, 3: required string tablename, 4: optional string partitionname, 5: required CompactionType type, 6: optional string runas, 7: optional string properties, 8: optional bool toomanyaborts, 9: optional string state, 10: optional string workerId, 11: optional i64 start, 12: optional i64 highestWriteId, 13: optional string errorMessage, 14: optional bool hasoldabort, 15: optional i64 enqueueTime, 16: optional i64 retryRetention, 17: optional string poolname, 18: optional i32 numberOfBuckets, 19: optional string orderByClause }
struct OptionalCompactionInfoStruct { 1: optional CompactionInfoStruct ci }
struct FindNextCompactRequest { 1: optional string workerId, 2: optional string workerVersion, 3: optional string poolName }
struct ShowCompactRequest { 1: optional i64 id, 2: optional string poolName, 3: optional string dbName, 4: optional string tbName, 5: optional string partName, 6: optional CompactionType type, 7: optional string state, 8: optional i64 limit, 9: optional string order }
struct ShowCompactResponseElement { 1: required string dbname, 2: required string tablename, 3: optional string partitionname, 4: required CompactionType type, 5: required string state, 6: optional string workerid, 7: optional i64 start, 8: optional string runAs, 9: optional i64 hightestTxnId, 10: optional string metaInfo, 11: optional i64 endTime, 12: optional string hadoopJobId, 13: optional i64 id, 14: optional string errorMessage, 15: optional i64 enqueueTime, 16: optional string workerVersion, 17: optional string initiatorId, 18: optional string initiatorVersion, 19: optional i64 cleanerStart, 20: optional string poolName, 21: optional i64 nextTxnId, 22: optional i64 txnId, 23: optional i64 commitTime }
struct ShowCompactResponse { 1: required list<ShowCompactResponseElement> compacts }
struct GetLatestCommittedCompactionInfoRequest { 1: required string dbname, 2: required string tablename, 3: optional list<string> partitionnames, 4: optional i64 lastCompactionId }
struct GetLatestCommittedCompactionInfoResponse { 1: required list<CompactionInfoStruct> compactions }
struct AbortCompactionRequest { 1: required list<i64> compactionIds, 2: optional string type, 3: optional string poolName }
struct AbortCompactionResponseElement { 1: required i64 compactionId, 2: optional string status, 3: optional string message }
struct AbortCompactResponse { 1: required map<i64, AbortCompactionResponseElement> abortedcompacts }

service Metastore {
  string getVersion()
  list<string> set_ugi(1: string user_name, 2: list<string> group_names) throws (1: MetaException o1)
  list<string> get_all_databases() throws (1: MetaException o1)
  Database get_database(1: string name) throws (1: NoSuchObjectException o1, 2: MetaException o2)
  list<string> get_tables_by_type(1: string db_name, 2: string pattern, 3: string tableType) throws (1: MetaException o1)
  list<string> get_all_tables(1: string db_name) throws (1: MetaException o1)
  list<string> get_table_names_by_filter(1: string dbname, 2: string filter, 3: i16 max_tables) throws (1: MetaException o1, 3: UnknownDBException o3)
  Table get_table(1: string dbname, 2: string tbl_name) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  GetTableResult get_table_req(1: GetTableRequest req) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  list<string> get_partition_names(1: string db_name, 2: string tbl_name, 3: i16 max_parts) throws (1: NoSuchObjectException o1, 2: MetaException o2)
  list<string> get_partition_names_ps(1: string db_name, 2: string tbl_name, 3: list<string> part_vals, 4: i16 max_parts) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  Partition get_partition_by_name(1: string db_name, 2: string tbl_name, 3: string part_name) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  list<Partition> get_partitions_by_names(1: string db_name, 2: string tbl_name, 3: list<string> names) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  GetPartitionsByNamesResult get_partitions_by_names_req(1: GetPartitionsByNamesRequest req) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  string get_config_value(1: string name, 2: string defaultValue) throws (1: ConfigValSecurityException o1)
  GetOpenTxnsResponse get_open_txns()
  GetOpenTxnsInfoResponse get_open_txns_info()
  GetOpenTxnsResponse get_open_txns_req(1: GetOpenTxnsRequest getOpenTxnsRequest)
  OpenTxnsResponse open_txns(1: OpenTxnRequest rqst)
  void abort_txn(1: AbortTxnRequest rqst) throws (1: NoSuchTxnException o1)
  void abort_txns(1: AbortTxnsRequest rqst) throws (1: NoSuchTxnException o1)
  void commit_txn(1: CommitTxnRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
  GetValidWriteIdsResponse get_valid_write_ids(1: GetValidWriteIdsRequest rqst) throws (1: NoSuchTxnException o1, 2: MetaException o2)
  AllocateTableWriteIdsResponse allocate_table_write_ids(1: AllocateTableWriteIdsRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: MetaException o3)
  LockResponse lock(1: LockRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
  LockResponse check_lock(1: CheckLockRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: NoSuchLockException o3)
  void unlock(1: UnlockRequest rqst) throws (1: NoSuchLockException o1, 2: TxnOpenException o2)
  ShowLocksResponse show_locks(1: ShowLocksRequest rqst)
  void heartbeat(1: HeartbeatRequest ids) throws (1: NoSuchLockException o1, 2: NoSuchTxnException o2, 3: TxnAbortedException o3)
  HeartbeatTxnRangeResponse heartbeat_txn_range(1: HeartbeatTxnRangeRequest txns)
  CompactionResponse compact2(1: CompactionRequest rqst)
  ShowCompactResponse show_compact(1: ShowCompactRequest rqst)
  OptionalCompactionInfoStruct find_next_compact2(1: FindNextCompactRequest rqst) throws (1: MetaException o1)
  void update_compactor_state(1: CompactionInfoStruct cr, 2: i64 txn_id)
  list<string> find_columns_with_stats(1: CompactionInfoStruct cr)
  void mark_compacted(1: CompactionInfoStruct cr) throws (1: MetaException o1)
  void mark_failed(1: CompactionInfoStruct cr) throws (1: MetaException o1)
  void mark_refused(1: CompactionInfoStruct cr) throws (1: MetaException o1)
  void set_hadoop_jobid(1: string jobId, 2: i64 cq_id)
  GetLatestCommittedCompactionInfoResponse get_latest_committed_compaction_info(1: GetLatestCommittedCompactionInfoRequest rqst)
  AbortCompactResponse abort_Compactions(1: AbortCompactionRequest rqst)
  string get_metastore_db_uuid() throws (1: MetaException o1)
}
