/**
 * Responses to the statements that TypeORM sends when a data source of `tenancy.pg` is initialized outside of a tenant.
 * They name the PostgreSQL version, no database and no schema. TypeORM needs them to start, also before the first
 * tenant exists. Every other statement without a tenant is rejected.
 */
import { currentContext, NO_TENANT } from '../../kernel/base/context.ts'
import type { SqlResult } from '../../kernel/database/database.ts'
import type { Statement, StatementResult } from '../isolation/driver.ts'
import { TenantMismatch } from '../tenant/errors.ts'
import { REFUSED_SETTINGS } from './rejected-settings.ts'
import type { TenantSource } from './router.ts'

/** The backoffice database, whose server has the version. */
export interface Backoffice {
  /** Runs work outside of the transaction in progress. */
  outside<T>(work: () => T): T
  sql(statement: string): Promise<SqlResult>
}

type Fact = (backoffice: Backoffice) => Promise<object>

const FACTS: Readonly<Record<string, Fact>> = {
  'select version()': async (backoffice) => {
    const { rows } = await backoffice.outside(() => backoffice.sql('select version()'))
    return rows[0]
  },
  'select * from current_database()': async () => ({ current_database: REFUSED_SETTINGS.database }),
  'select * from current_schema()': async () => ({ current_schema: null }),
}

/** The source of a statement of this list in a context without a tenant. Undefined: the statement needs a tenant. */
export function factSource(backoffice: Backoffice, statement: Statement | undefined): TenantSource | undefined {
  if (!statement || statement.rowMode === 'array' || currentContext().tenantId) return undefined
  const fact = FACTS[statement.text.trim().toLowerCase()]
  if (!fact) return undefined
  return {
    id: NO_TENANT,
    execute: async () => result(await fact(backoffice)),
    begin: () => Promise.reject(TenantMismatch('The context has no tenant.')),
  }
}

const result = (row: object): StatementResult => ({ rows: [row], rowCount: 1, command: 'SELECT', fields: [] })
