/**
 * Everything that a tenant's storage holds, on its way from one place to another: read out of a driver or an archive, taken in by
 * a driver or an archive. Whichever the two are, this is what passes between them, so there is one way to copy a tenant.
 *
 *   description ─► tables, one after the other: CSV as COPY writes it, with a header ─► totals, when all have been read
 *
 * The tables themselves are not part of it: the host's migrations make them, and `description` says which those are. `tenant_id`
 * is left out where it is filled by `tenantry.current_tenant()`, so the rows are those of whoever takes them in. Nothing is ever
 * held whole: a table is a stream.
 *
 * CSV is PostgreSQL's: NULL is nothing, '' is `""`, and values are written with DateStyle ISO, IntervalStyle postgres, TimeZone UTC,
 * bytea in hex.
 */
import { defineError } from '../../kernel/base/errors.ts'
import type { AppliedMigration } from '../tenant/schema-version.ts'

export interface CopiedColumn {
  readonly name: string
  /** As its engine writes it: `character varying(20)`. */
  readonly type: string
}

export interface CopiedTable {
  readonly name: string
  /** Those that are stored: what is generated is generated anew. */
  readonly columns: readonly CopiedColumn[]
}

export interface CopiedSequence {
  readonly name: string
  /** In digits, as it has up to 64 bits. */
  readonly lastValue: string
  readonly isCalled: boolean
}

export interface CopyDescription {
  readonly engine: 'postgres'
  /** The driver that it was read from. */
  readonly isolation: string
  /** What had been run in the storage, in order. */
  readonly migrations: readonly AppliedMigration[]
  /** In the order in which they follow. */
  readonly tables: readonly CopiedTable[]
  readonly sequences: readonly CopiedSequence[]
}

/** The rows of one table. */
export interface TableCopy {
  readonly table: CopiedTable
  /** CSV with a header line; read to its end before the next table is asked for. */
  readonly csv: AsyncIterable<Buffer>
}

export interface TableTotals {
  readonly name: string
  readonly rows: number
  /** Of the CSV. */
  readonly bytes: number
}

export interface TenantCopy {
  readonly description: CopyDescription
  /** A guess, for whoever watches; undefined when there is none. */
  readonly estimatedRows: number | undefined
  tables(): AsyncIterable<TableCopy>
  /** What whoever has taken all tables must have now. Throws `E_BACKUP_INCOMPATIBLE` when the copy is not whole. */
  totals(): Promise<readonly TableTotals[]>
}

/** An archive that cannot be restored: truncated, altered, of another tenant or program, or of tables that are not these. */
export const BackupIncompatible = defineError('E_BACKUP_INCOMPATIBLE', 409, 'The backup cannot be restored')
