/**
 * The front door. A host composes a tenancy, embeds its admin API, and writes satellites and drivers of its own with what is
 * exported here; satellites of ours come from `tenantry/satellites/<name>`, hosts' adapters from `tenantry/<framework>`.
 */
export { type DirectoryOptions, directory } from './drivers/archives/directory.ts'
export { type S3Options, s3 } from './drivers/archives/s3.ts'
export { type DatabasePgOptions, databasePg } from './drivers/isolation/database-pg.ts'
export type { PlacementConfig } from './drivers/isolation/roles/tenant-login.ts'
export { type RowscopePgOptions, rowscopePg } from './drivers/isolation/rowscope-pg.ts'
export { type SchemaPgOptions, schemaPg } from './drivers/isolation/schema-pg.ts'
export { sqliteMemory } from './drivers/isolation/sqlite/driver.ts'
export { memoryStore } from './drivers/store/memory.ts'
export { type PostgresStoreOptions, postgresStore } from './drivers/store/postgres.ts'
export { type RedisStoreOptions, redisStore } from './drivers/store/redis.ts'
export { type Client, createHttp, DEFAULT_PREFIX, type Http, type HttpOptions, type Mountable } from './http/app.ts'
export type { HostIdentity, Identify } from './http/host-identity.ts'
export { problemOf } from './http/problem.ts'
export { createReceivers } from './http/receivers.ts'
export type { AdminToken } from './http/tokens.ts'
export { type Command, type CommandInput, command, type Terminal } from './kernel/api/commands.ts'
export {
  type AnyOperation,
  type CommandForm,
  type Operation,
  operation,
  Reply,
  StreamReply,
} from './kernel/api/operation.ts'
export { Moment, NEWEST_FIRST, Page, type PageOf, pageOf } from './kernel/api/page.ts'
export { type Actor, type Context, type ContextChanges, currentContext, runInContext } from './kernel/base/context.ts'
export {
  DependencyUnavailable,
  DependencyUnavailable as DependencyUnavailableException,
  defineError,
  type ErrorType,
  InvalidRequest,
  TenancyError,
  tenancyErrorOf,
} from './kernel/base/errors.ts'
export { uuidv7 } from './kernel/base/ids.ts'
export { parsed } from './kernel/base/validate.ts'
export type { Migration } from './kernel/database/migrations.ts'
export type { Erasable, ErasableSystem, ErasureSubject, ExpiringData, FoundData } from './kernel/erasable.ts'
export { type Change, ChangeRecorded, recordChange } from './kernel/events/changes.ts'
export { type EventOf, type EventType, event, type Listener, on } from './kernel/events/events.ts'
export { type Attempt, handles, type Job, type JobType, jobType, type Recurring } from './kernel/jobs/jobs.ts'
export type { Kernel } from './kernel/kernel.ts'
export type { Series } from './kernel/metrics/metrics.ts'
export { type JoinedOutbox, joinedOutbox } from './kernel/outbox/joining.ts'
export { eachEntry, type OutboxEntry, type OutboxKind, outboxEntry } from './kernel/outbox/kinds.ts'
export { part } from './kernel/part.ts'
export { type Check, CheckFailure, type CheckReturn } from './kernel/resilience/health.ts'
export { DependencyDegraded, type ResilienceConfig } from './kernel/resilience/resilience.ts'
export type {
  AccessCheck,
  AttentionSource,
  TimelineSource,
} from './kernel/shares/contributions.ts'
export { foundBy, type SearchProvider, type SearchRequest, type SearchResult } from './kernel/shares/search.ts'
export type { Counted, Counters, Reading, Readings, Take, Taken } from './kernel/store/counters.ts'
export type { Owner, Store, StoreDriver } from './kernel/store/store.ts'
export { type ConfigFile, defineConfig } from './service/config.ts'
export {
  type Config,
  createTenancy,
  type Definition,
  defineTenancy,
  type StartOptions,
} from './service/definition.ts'
export type { NamesOf } from './tenancy/names.ts'
export type { Register, RegisteredTenant } from './tenancy/register.ts'
export {
  type AnySatellite,
  defineSatellite,
  type Names,
  type Received,
  type Receiver,
  type Satellite,
} from './tenancy/satellite.ts'
export { type Tables, tables } from './tenancy/tables.ts'
export type { Core, Tenancy } from './tenancy/tenancy.ts'
export { PatternUnknown, SessionNotFound, TokenExists, TokenNotFound } from './tenancy/tokens/errors.ts'
export type { BrowserSession, NewToken, Token, TokenWithSecret } from './tenancy/tokens/resource.ts'
export type { EraseRequest, Erasure } from './tenants/erasure/erasure.ts'
export * from './tenants/erasure/errors.ts'
export type { Guard, GuardDecision, GuardOptions } from './tenants/guard/guard.ts'
export type { QuotaEnforcing, QuotaOptions, RouteCheck } from './tenants/guard/quota-hook.ts'
export {
  firstOf,
  fromCustomDomain,
  fromFunction,
  fromHeader,
  fromPath,
  fromSubdomain,
  type GuardedRequest,
  type Strategy,
} from './tenants/guard/strategies.ts'
export type { Tenant } from './tenants/handles/handle.ts'
export { knexClient, prismaAdapter, sequelizeDefaults } from './tenants/handles/orms.ts'
export type { PerTenant, PerTenantOptions } from './tenants/handles/per-tenant.ts'
export type { Carried, CarriedData } from './tenants/host-jobs/carried.ts'
export type { ForEachTenantOptions, ForEachTenantResult } from './tenants/host-jobs/for-each-tenant.ts'
export type { JobHandler, JobOptions } from './tenants/host-jobs/job.ts'
export {
  BackupIncompatible,
  type CopiedColumn,
  type CopiedSequence,
  type CopiedTable,
  type CopyDescription,
  type TableCopy,
  type TableTotals,
  type TenantCopy,
} from './tenants/isolation/copy.ts'
export {
  type Capabilities,
  ConnectionLimitReached,
  type ConnectionLimits,
  type DrainOptions,
  type Imported,
  type IsolationDriver,
  NotSupported,
  type Placement,
  type Statement,
  type StatementResult,
  StorageFenced,
  type StorageLocation,
  type TenantConnection,
  type TransferOptions,
} from './tenants/isolation/driver.ts'
export { readTenantMigrations, type TenantMigration } from './tenants/isolation/migrations.ts'
export * from './tenants/migrations/errors.ts'
export type { MigrateOptions, MigrationReport, RollbackOptions } from './tenants/migrations/options.ts'
export type { PlansConfig } from './tenants/registry/plans.ts'
export { assertTenantExists, lockTenant } from './tenants/registry/tenant-assertions.ts'
export * from './tenants/tenant/errors.ts'
export * from './tenants/tenant/events.ts'
export * from './tenants/tenant/login-events.ts'
export { TenantId, type TenantRecord } from './tenants/tenant/tenant.ts'
export {
  ArchiveMissing,
  type Archives,
  type CountedArchives,
  type StoredArchive,
  type WriteOptions,
} from './tenants/transfers/archive/port.ts'
export type { Backup } from './tenants/transfers/backups/resource.ts'
export type { Transfer } from './tenants/transfers/model/transfer.ts'
export * from './tenants/transfers/requests/errors.ts'
