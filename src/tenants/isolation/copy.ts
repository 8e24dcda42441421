/**
 * Defines a copy of a tenant's storage, read from a driver or an archive and imported into a driver or an archive.
 *
 *   description ─► tables, one after the other: CSV in COPY's format, with a header ─► totals, after all tables are read
 *
 * - Tables are not part of a copy: the host's migrations create them, and `description` names these migrations.
 * - `tenant_id` is omitted where its default is `tenantry.current_tenant()`, so the rows belong to the importing
 *   tenant.
 * - A table is a stream and never completely in memory.
 * - CSV is that of PostgreSQL: NULL is empty, '' is `""`; values use DateStyle ISO, IntervalStyle postgres, TimeZone
 *   UTC, bytea in hex.
 */
import { defineError } from '../../kernel/base/errors.ts'
import type { AppliedMigration } from '../tenant/schema-version.ts'

export interface CopiedColumn {
  readonly name: string
  /** The type in the notation of its engine: `character varying(20)`. */
  readonly type: string
}

export interface CopiedTable {
  readonly name: string
  /** Stored columns, without generated ones. */
  readonly columns: readonly CopiedColumn[]
}

export interface CopiedSequence {
  readonly name: string
  /** Decimal digits, as it has up to 64 bits. */
  readonly lastValue: string
  readonly isCalled: boolean
}

export interface CopyDescription {
  readonly engine: 'postgres'
  /** The driver of the source. */
  readonly isolation: string
  /** Migrations applied to the storage, in order. */
  readonly migrations: readonly AppliedMigration[]
  /** In the order of their rows in the copy. */
  readonly tables: readonly CopiedTable[]
  readonly sequences: readonly CopiedSequence[]
}

/** The rows of one table. */
export interface TableCopy {
  readonly table: CopiedTable
  /** CSV with a header line. Must be read to its end before the next table is requested. */
  readonly csv: AsyncIterable<Buffer>
}

export interface TableTotals {
  readonly name: string
  readonly rows: number
  /** Size of the CSV. */
  readonly bytes: number
}

export interface TenantCopy {
  readonly description: CopyDescription
  /** Estimate for the progress; undefined if unknown. */
  readonly estimatedRows: number | undefined
  tables(): AsyncIterable<TableCopy>
  /** Totals for comparison after all tables are read. Throws `E_BACKUP_INCOMPATIBLE` if the copy is not complete. */
  totals(): Promise<readonly TableTotals[]>
}

/** An archive that is truncated, altered, of another tenant or program, or of different tables. */
export const BackupIncompatible = defineError('E_BACKUP_INCOMPATIBLE', 409, 'Backup cannot be restored')
