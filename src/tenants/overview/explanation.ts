/**
 * Explains whether requests of a tenant are admitted now. Every check is evaluated, also after a failed one.
 *
 *   resolved ─► exists ─► member ─► status ─► ready ─► maintenance ─► circuit    the rules of the guard (guard/rules.ts)
 *                                                                └──► contributions of the parts: storage, schema, quotas, ..
 *
 * The response is that of the guard. A contribution concerns what a request does after it was admitted.
 */
import { z } from 'zod'
import { TenancyError } from '../../kernel/base/errors.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { type AccessCheck, type AccessResult, CHANGES, type TimelineSource } from '../../kernel/shares/contributions.ts'
import { isReadable } from '../../kernel/shares/shares.ts'
import { type CircuitSource, GUARD_RULES, type GuardRule } from '../guard/rules.ts'
import type { Located, Registry } from '../registry/registry.ts'
import { tenantNotFound } from '../tenant/errors.ts'
import type { TenantRecord } from '../tenant/tenant.ts'
import { type Entrance, type Entry, Resolution } from './resolution.ts'

const moment = z.iso.datetime()

const Check = z
  .object({
    check: z.string().meta({ description: 'Name of the check', example: 'status' }),
    passed: z.boolean().nullable().meta({ description: 'Null if it cannot be evaluated here, or not in time' }),
    code: z.string().nullable().meta({ description: 'Code of the error of requests; null if they have none' }),
    since: moment.nullable().meta({ description: 'Time since which the check fails; null if it is unknown' }),
    by: z
      .object({ id: z.string(), action: z.string(), actor: z.string().nullable(), at: moment })
      .nullable()
      .meta({ description: 'Audit entry of the change that caused the failure; null without one' }),
    message: z.string(),
    remedy: z
      .object({ operation: z.string(), params: z.record(z.string(), z.string()) })
      .nullable()
      .meta({ description: 'Operation that ends the failure' }),
  })
  .meta({ id: 'AccessCheck' })
type Check = z.output<typeof Check>

export const Explanation = z
  .object({
    tenantId: z.string(),
    at: moment,
    checks: z.array(Check).meta({ description: 'In the order of a request' }),
    response: z
      .object({
        status: z.int().nullable().meta({ description: 'Null if the guard admits the request: the host responds' }),
        code: z.string().nullable(),
      })
      .meta({ description: 'Response of the guard to a request at this moment' }),
  })
  .meta({ id: 'TenantExplanation' })
export type Explanation = z.output<typeof Explanation>

type Result = AccessResult & { readonly check: string; readonly error?: TenancyError | undefined }

export class Explanations {
  readonly resolution: Resolution
  readonly #kernel: Pick<Kernel, 'shares' | 'clock'>
  readonly #registry: Registry
  readonly #circuits: CircuitSource
  readonly #openedAt: (located: Located) => Date | null

  /** @param openedAt time at which the circuit of a tenant or of its server was opened */
  constructor(
    kernel: Pick<Kernel, 'shares' | 'clock'>,
    registry: Registry,
    circuits: CircuitSource,
    openedAt: (located: Located) => Date | null,
  ) {
    this.resolution = new Resolution(registry)
    this.#kernel = kernel
    this.#registry = registry
    this.#circuits = circuits
    this.#openedAt = openedAt
  }

  /** Also of a deleted tenant. @throws E_TENANT_NOT_FOUND for an unknown or purged one */
  async explain(id: string, entry: Entry = {}): Promise<Explanation> {
    const located = await this.#registry.refresh(id)
    if (!located) throw tenantNotFound(id)
    const entrance = await this.resolution.of(id, entry)
    const rules = GUARD_RULES.map((rule): Result => this.#evaluated(rule, located))
    const [exists, ...others] = rules
    const guard = [...resolvedOf(entrance), ...(exists ? [exists] : []), MEMBER, ...others]
    const { shares, clock } = this.#kernel
    const contributed = await shares.read<AccessCheck>(shares.accessChecks, () => ({ tenantId: id }))
    const results: Result[] = [
      ...guard,
      ...contributed.map(({ share: { name }, result = UNKNOWN }) => ({ check: name, ...result })),
    ]
    const failed = rules.find(({ error }) => error)?.error
    return {
      tenantId: id,
      at: clock.now().toISOString(),
      checks: await Promise.all(results.map((result) => this.#toCheck(id, result))),
      response: entrance?.response ?? { status: failed?.status ?? null, code: failed?.code ?? null },
    }
  }

  #evaluated({ check, assert }: GuardRule, located: Located): Result {
    try {
      assert(this.#circuits, located)
      return { check, passed: true, message: PASSED[check] }
    } catch (error) {
      if (!(error instanceof TenancyError)) throw error
      const { code, message } = error
      return { check, passed: false, code, message, error, ...this.#detailsOf(check, located) }
    }
  }

  #detailsOf(check: GuardRule['check'], located: Located): Pick<Result, 'since' | 'remedy' | 'actions'> {
    const { id, status, suspendedAt, deletedAt, createdAt, updatedAt, maintenance }: TenantRecord = located.tenant
    const remedy = (operation: string) => ({ operation, params: { id } })
    switch (check) {
      case 'exists':
        return { since: dateOf(deletedAt), remedy: remedy('tenants.restore'), actions: ['tenants.delete'] }
      case 'status':
        return { since: dateOf(suspendedAt), remedy: remedy('tenants.activate'), actions: ['tenants.suspend'] }
      case 'ready':
        return status === 'failed'
          ? { since: dateOf(updatedAt), remedy: remedy('tenants.activate'), actions: ['tenants.install'] }
          : { since: status === 'provisioning' ? dateOf(createdAt) : null, actions: ['tenants.create'] }
      case 'maintenance':
        return {
          since: dateOf(maintenance?.since ?? null),
          remedy: remedy('tenants.exitMaintenance'),
          actions: ['tenants.enterMaintenance'],
        }
      case 'circuit':
        return { since: this.#openedAt(located) }
    }
  }

  async #toCheck(tenantId: string, { check, passed, message, code, since, remedy, actions }: Result): Promise<Check> {
    return {
      check,
      passed,
      code: code ?? null,
      since: since?.toISOString() ?? null,
      by: passed === false && actions ? await this.#changeBy(tenantId, actions) : null,
      message,
      remedy: remedy ? { operation: remedy.operation, params: { ...remedy.params } } : null,
    }
  }

  /** The newest of these changes; null without an audit log, or for a caller that may not read it. */
  async #changeBy(tenantId: string, actions: readonly string[]): Promise<Check['by']> {
    const { shares, clock } = this.#kernel
    const sources = shares.timeline.filter((source) => source.name === CHANGES && isReadable(source))
    const before = { at: new Date(clock.now().getTime() + CLOCK_DIFFERENCE_MS), id: '' }
    const request = { tenantId, before, from: undefined, limit: 1, actions }
    const [found] = await shares.read<TimelineSource>(sources, () => request)
    const [entry] = found?.result ?? []
    if (!entry) return null
    const { id, action, title, actor, at } = entry
    return { id, action: action ?? title, actor, at: at.toISOString() }
  }
}

/** Clocks of other processes may be ahead. */
const CLOCK_DIFFERENCE_MS = 60_000

const UNKNOWN: AccessResult = { passed: null, message: 'The check could not be evaluated in time.' }

const MEMBER: Result = {
  check: 'member',
  passed: null,
  message: 'Only the host knows whether a caller belongs to the tenant.',
}

const PASSED: Readonly<Record<GuardRule['check'], string>> = {
  exists: 'The tenant exists.',
  status: 'The tenant is not suspended.',
  ready: 'The storage of the tenant is installed.',
  maintenance: 'The tenant is not in maintenance.',
  circuit: 'The circuits of the tenant and of its server admit calls.',
}

const resolvedOf = (entrance: Entrance | undefined): Result[] =>
  entrance ? [{ check: 'resolved', ...entrance.result }] : []

const dateOf = (text: string | null): Date | null => (text === null ? null : new Date(text))
