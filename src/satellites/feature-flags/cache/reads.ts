/**
 * Reads flags from the database. All reads of one tick are one query, for all tenants.
 *
 * - A read has a time limit of a second. Then its connection is closed, because every request reads flags, and an unresponsive server
 *   would occupy all connections of the pool. In a transaction, its connection stays.
 * - Every failure is `E_DEPENDENCY_UNAVAILABLE`.
 */

import { DependencyUnavailable, type TenancyError } from '../../../kernel/base/errors.ts'
import { withTimeout } from '../../../kernel/base/with-timeout.ts'
import type { Database, Prepared } from '../../../kernel/database/database.ts'
import type { FlagRule } from '../model/rollout.ts'

const READ_TIMEOUT_MS = 1_000

const COLUMNS = 'f.tenant_id as tenant, f.key, f.enabled, f.rollout_percent as percent, f.bucket_key as bucket'

const SOME: Prepared = {
  name: 'flags_some',
  text: `select ${COLUMNS} from unnest($1::text[], $2::text[]) as asked (tenant_id, key)
         join multitenancy.feature_flags f using (tenant_id, key)`,
  timeoutMs: READ_TIMEOUT_MS,
}
const ALL: Prepared = {
  name: 'flags_all',
  text: `select ${COLUMNS} from multitenancy.feature_flags f where f.tenant_id = $1 order by f.key`,
  timeoutMs: READ_TIMEOUT_MS,
}

interface RequestedRule {
  readonly tenantId: string
  readonly key: string
  readonly rule: PromiseWithResolvers<FlagRule | undefined>
}

export class FlagReads {
  readonly #database: Database
  #requested: Map<string, RequestedRule> | undefined

  constructor(database: Database) {
    this.#database = database
  }

  /** In a transaction, a separate query that sees its changes. */
  one(tenantId: string, key: string): Promise<FlagRule | undefined> {
    if (this.#database.inTransaction) return this.#alone(tenantId, key)
    if (!this.#requested) {
      this.#requested = new Map()
      process.nextTick(() => this.#read())
    }
    const name = nameOf(tenantId, key)
    const requested = this.#requested.get(name) ?? { tenantId, key, rule: Promise.withResolvers() }
    this.#requested.set(name, requested)
    return requested.rule.promise
  }

  async all(tenantId: string): Promise<FlagRule[]> {
    return (await this.#rows(ALL, [tenantId])).map(ruleOf)
  }

  async #alone(tenantId: string, key: string): Promise<FlagRule | undefined> {
    return (await this.#rows(SOME, [[tenantId], [key]])).map(ruleOf)[0]
  }

  async #read(): Promise<void> {
    const requested = this.#requested ?? new Map<string, RequestedRule>()
    this.#requested = undefined
    const all = [...requested.values()]
    try {
      const rows = await this.#rows(SOME, [all.map(({ tenantId }) => tenantId), all.map(({ key }) => key)])
      const found = new Map(rows.map((row) => [nameOf(row.tenant, row.key), ruleOf(row)]))
      for (const [name, { rule }] of requested) rule.resolve(found.get(name))
    } catch (error) {
      for (const { rule } of all) rule.reject(error)
    }
  }

  async #rows(statement: Prepared, values: readonly unknown[]): Promise<any[]> {
    try {
      const late = () => new Error('the read of flags exceeded its time limit')
      return (await withTimeout(this.#database.sql(statement, values), READ_TIMEOUT_MS, late)).rows
    } catch (error) {
      throw unreadable(error)
    }
  }
}

export const unreadable = (error?: unknown): TenancyError =>
  DependencyUnavailable.matches(error)
    ? error
    : DependencyUnavailable('Flags cannot be read at present.', { cause: error })

/** Neither part contains a slash. */
const nameOf = (tenantId: string, key: string): string => `${tenantId}/${key}`

const ruleOf = (row: any): FlagRule => ({
  key: row.key,
  enabled: row.enabled,
  rolloutPercent: row.percent,
  bucketKey: row.bucket,
})
