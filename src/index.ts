/**
 * The front door. A host composes a tenancy, embeds its admin API, and writes satellites and drivers of its own with what is
 * exported here; satellites of ours come from `tenantry/satellites/<name>`, hosts' adapters from `tenantry/<framework>`.
 */
export { type DirectoryOptions, directory } from './drivers/archives/directory.ts'
export { type S3Options, s3 } from './drivers/archives/s3.ts'
export { type DatabasePgOptions, databasePg } from './drivers/isolation/database-pg.ts'
export { type RowscopePgOptions, rowscopePg } from './drivers/isolation/rowscope-pg.ts'
export { type SchemaPgOptions, schemaPg } from './drivers/isolation/schema-pg.ts'
export { sqliteMemory } from './drivers/isolation/sqlite-memory.ts'
export type { PlacementConfig } from './drivers/isolation/tenant-login.ts'
export { memoryStore } from './drivers/store/memory.ts'
export { type PostgresStoreOptions, postgresStore } from './drivers/store/postgres.ts'
export { type RedisStoreOptions, redisStore } from './drivers/store/redis.ts'
export { type Client, createHttp, DEFAULT_PREFIX, type Http, type HttpOptions, type Mountable } from './http/app.ts'
export { problemOf } from './http/problem.ts'
export { createReceivers } from './http/receivers.ts'
export type { AdminToken } from './http/tokens.ts'
export { type Change, ChangeRecorded, recordChange } from './kernel/changes.ts'
export { type Command, type CommandInput, command, type Terminal } from './kernel/commands.ts'
export { type Actor, type Context, type ContextChanges, currentContext, runInContext } from './kernel/context.ts'
export type { Counted, Counters, Reading, Readings, Take, Taken } from './kernel/counters.ts'
export {
  DependencyUnavailable,
  DependencyUnavailable as DependencyUnavailableException,
  defineError,
  type ErrorType,
  InvalidRequest,
  TenancyError,
} from './kernel/errors.ts'
export { type EventOf, type EventType, event, type Listener, on } from './kernel/events.ts'
export { type Check, CheckFailure, type CheckReturn } from './kernel/health.ts'
export { uuidv7 } from './kernel/ids.ts'
export { type Attempt, handles, type Job, type JobType, jobType, type Recurring } from './kernel/jobs.ts'
export type { Kernel } from './kernel/kernel.ts'
export type { Series } from './kernel/metrics.ts'
export type { Migration } from './kernel/migrations.ts'
export { type Operation, operation, Reply, StreamReply } from './kernel/operation.ts'
export { Moment, Page, type PageOf, pageOf } from './kernel/page.ts'
export { parsed } from './kernel/parsed.ts'
export { DependencyDegraded, type ResilienceConfig } from './kernel/resilience.ts'
export type { Owner, Store, StoreDriver } from './kernel/store.ts'
export { type AnyOperation, defineSatellite, type Received, type Receiver, type Satellite } from './satellite.ts'
export { type ConfigFile, defineConfig } from './service/config.ts'
export { type BackupsConfig, createTenancy, type Tenancy, type TenancyConfig } from './tenancy.ts'
export type { Checkpoint, QuotaEnforcing, QuotaOptions } from './tenants/checkpoint.ts'
export {
  BackupIncompatible,
  type CopiedColumn,
  type CopiedSequence,
  type CopiedTable,
  type CopyDescription,
  type TableCopy,
  type TableTotals,
  type TenantCopy,
} from './tenants/copy.ts'
export * from './tenants/errors.ts'
export * from './tenants/events.ts'
export { assertTenantExists, lockTenant } from './tenants/existing.ts'
export type { Admission, Guard, GuardedTenant, GuardOptions } from './tenants/guard.ts'
export {
  type Capabilities,
  ConnectionLimitReached,
  type ConnectionLimits,
  type DrainOptions,
  type Imported,
  type IsolationDriver,
  type Place,
  type Placement,
  type Statement,
  type StatementResult,
  StorageFenced,
  type TenantConnection,
  type TransferOptions,
} from './tenants/isolation.ts'
export * from './tenants/login-events.ts'
export * from './tenants/migration-errors.ts'
export type { MigrateOptions, MigrationReport, RollbackOptions } from './tenants/migration-options.ts'
export { readTenantMigrations, type TenantMigration } from './tenants/migrations.ts'
export { knexClient, prismaAdapter, sequelizeDefaults } from './tenants/orms.ts'
export type { PerTenant, PerTenantOptions } from './tenants/per-tenant.ts'
export type { PlansConfig } from './tenants/plans.ts'
export {
  firstOf,
  fromCustomDomain,
  fromFunction,
  fromHeader,
  fromPath,
  fromSubdomain,
  type GuardedRequest,
  type Strategy,
} from './tenants/resolution.ts'
export { type Tenant, TenantId } from './tenants/tenant.ts'
export type { TenantHandle } from './tenants/tenant-handle.ts'
export { ArchiveMissing, type Archives, type StoredArchive, type WriteOptions } from './tenants/transfers/archives.ts'
export type { Backup } from './tenants/transfers/backup-resource.ts'
export * from './tenants/transfers/errors.ts'
export type { Transfer } from './tenants/transfers/transfer.ts'
