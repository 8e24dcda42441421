/**
 * Feature flags of tenants: evaluated by the host on every request, set by an administrator.
 *
 * A cached flag is evaluated without a query and almost without allocations. In a transaction, an evaluation sees the transaction's
 * changes, and caches nothing.
 */

import type { PageOf, PageOptions } from '../../kernel/api/page.ts'
import type { TenancyError } from '../../kernel/base/errors.ts'
import { assertDeclared, type DeclaredNames, declaredNames } from '../../kernel/declarations/declared-names.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Sample, Series } from '../../kernel/metrics/metrics.ts'
import { TENANT_ID } from '../../tenants/tenant/tenant.ts'
import { FlagCache } from './cache/cache.ts'
import { type ChangeListener, FlagChanges } from './cache/changes.ts'
import { KeyCounts, type KeyFilter } from './cache/key-counts.ts'
import type { Found, Whole } from './cache/known-flags.ts'
import { FlagReads, unreadable } from './cache/reads.ts'
import { SharedFlags } from './cache/shared.ts'
import { FlagRecords, type FlagWritten } from './flag-records.ts'
import {
  type FeatureFlag,
  type FlagFilter,
  type FlagKeyCounts,
  type FlagRequest,
  type FlagSettings,
  isFlagKey,
} from './model/flag.ts'
import {
  type Evaluation,
  type EvaluationContext,
  evaluate,
  isInRollout,
  prepared,
  REASONS,
  sourceOf,
} from './model/rollout.ts'
import type { FlagPreview, PreviewRequest } from './preview.ts'

const ON = Promise.resolve(true)
const OFF = Promise.resolve(false)
const NO_SUCH_FLAG: Found = { rule: undefined, isKnown: true }

/** An evaluation with its inputs. */
export interface Explanation extends Evaluation {
  readonly key: string
  /** The hashed value; null without a hash. */
  readonly value: string | null
  /** Source of the value: `bucketKey`, `tenantId`, or the name of an attribute. */
  readonly valueFrom: string | null
}

export class FeatureFlags<Flag extends string = string> {
  readonly #kernel: Kernel
  readonly #reads: FlagReads
  readonly #changes: FlagChanges
  readonly #records: FlagRecords
  readonly #keyCounts: KeyCounts
  readonly #cache: FlagCache
  readonly #declared: DeclaredNames
  readonly #counts = { STATIC: 0, SPLIT: 0, DISABLED: 0, FLAG_NOT_FOUND: 0, STALE: 0, ERROR: 0 }

  constructor(
    kernel: Kernel,
    { cacheTtl: ttlSeconds, flags }: { cacheTtl: number; flags?: readonly string[] | undefined },
  ) {
    const shared = kernel.store.isCache ? new SharedFlags(kernel, ttlSeconds) : undefined
    const changes = new FlagChanges(kernel)
    this.#kernel = kernel
    this.#declared = declaredNames(flags)
    this.#changes = changes
    this.#reads = new FlagReads(kernel.database)
    this.#records = new FlagRecords(kernel, changes, shared)
    this.#keyCounts = new KeyCounts(kernel)
    this.#cache = new FlagCache({ kernel, reads: this.#reads, shared, ttlSeconds, changes })
    changes.subscribe((tenantId, keys) =>
      tenantId === undefined ? this.#cache.doubtAll() : this.#cache.doubt(tenantId, keys),
    )
  }

  /** Starts to listen to changes. */
  start(): void {
    this.#changes.listen()
  }

  /**
   * Whether a flag is on. An unknown flag is off, and during an outage of the database the last known value applies.
   *
   * @throws E_DEPENDENCY_UNAVAILABLE only if a policy is `fail-closed`, E_INVALID_REQUEST for an undeclared flag
   * @example
   * if (await tenancy.featureFlags.isEnabled('new-editor', { tenantId: 'acme', bucketKey: user.id })) showEditor()
   */
  isEnabled(flagKey: Flag, context: EvaluationContext): Promise<boolean> {
    if (this.#declared?.has(flagKey) === false) return this.explain(flagKey, context).then(({ enabled }) => enabled)
    if (!this.#kernel.database.inTransaction) {
      const found = this.#cache.peek(context.tenantId, flagKey)
      if (found !== undefined) return this.#isOn(found, context) ? ON : OFF
    }
    return this.#find(flagKey, context).then((found) => this.#evaluated(found, context).enabled)
  }

  /** As `isEnabled`, with the reason and the inputs. */
  async explain(flagKey: Flag, context: EvaluationContext): Promise<Explanation> {
    assertDeclared(this.#declared, flagKey, 'key')
    return this.evaluate(flagKey, context)
  }

  /** As `explain`, for keys of remote callers: an undeclared flag has its stored value, or is unknown. */
  async evaluate(flagKey: string, context: EvaluationContext): Promise<Explanation> {
    const isPeeking = !this.#kernel.database.inTransaction
    const known = isPeeking ? this.#cache.peek(context.tenantId, flagKey) : undefined
    return this.#explained(flagKey, known ?? (await this.#find(flagKey, context)), context)
  }

  /**
   * Evaluates all flags of a tenant, by key, as `explain`.
   *
   * @throws E_DEPENDENCY_UNAVAILABLE under any policy if not all flags are known during an outage of the database
   */
  async explainAll(context: EvaluationContext): Promise<Explanation[]> {
    const { tenantId } = context
    this.#changes.listen()
    const all = TENANT_ID.test(tenantId) ? await this.#findAll(tenantId) : []
    return all
      .map((found) => found.rule && this.#explained(found.rule.key, found, context))
      .filter((explanation) => explanation !== undefined)
      .toSorted((one, other) => (one.key < other.key ? -1 : 1))
  }

  /** A page of a tenant's flags by key. Works for deleted tenants. @throws E_TENANT_NOT_FOUND */
  list(tenantId: string, options: PageOptions = {}): Promise<PageOf<FeatureFlag>> {
    return this.#records.list(tenantId, options)
  }

  /** A page of the keys of all tenants' flags, with the number of tenants by state. @param options `q`: part of a key */
  listKeys(options: KeyFilter & PageOptions = {}): Promise<PageOf<FlagKeyCounts>> {
    return this.#keyCounts.list(options)
  }

  /** A page of the flags of all tenants with one key, by tenant. Returns an empty page for an unknown key. */
  listTenants(key: string, options: FlagFilter & PageOptions = {}): Promise<PageOf<FeatureFlag>> {
    return this.#records.listTenants(key, options)
  }

  /**
   * Evaluates a rollout that is not saved for up to 1,000 values. Absent members are those of the present flag.
   *
   * @throws E_TENANT_NOT_FOUND, E_INVALID_REQUEST
   * @example const { on } = await tenancy.featureFlags.preview('acme', 'new-editor', { rolloutPercent: 20, bucketKeys: ids })
   */
  preview(tenantId: string, key: string, request: PreviewRequest): Promise<FlagPreview> {
    return this.#records.preview(tenantId, key, request)
  }

  /** @throws E_FLAG_NOT_FOUND, and as `list` */
  get(tenantId: string, key: string): Promise<FeatureFlag> {
    return this.#records.get(tenantId, key)
  }

  /** The flag if it exists, locked until the present transaction ends. @throws E_TENANT_NOT_FOUND */
  lock(tenantId: string, key: string): Promise<FeatureFlag | undefined> {
    return this.#records.lock(tenantId, key)
  }

  /** Replaces the complete state: an absent member is null. @throws E_TENANT_NOT_FOUND, E_TENANT_STATE for a deleted tenant, E_INVALID_REQUEST */
  async set(tenantId: string, key: Flag, request: FlagRequest): Promise<FlagWritten> {
    assertDeclared(this.#declared, key, 'key')
    return this.#records.set(tenantId, key, request)
  }

  /** As `set`, and absent members stay. A new flag starts disabled. */
  async edit(tenantId: string, key: Flag, edits: Partial<FlagSettings>): Promise<FlagWritten> {
    assertDeclared(this.#declared, key, 'key')
    return this.#records.edit(tenantId, key, edits)
  }

  /** @throws E_FLAG_NOT_FOUND, and as `set` */
  delete(tenantId: string, key: string): Promise<void> {
    return this.#records.delete(tenantId, key)
  }

  /** Copies the flags of the source to a clone, in the transaction that activates the clone. */
  copy(sourceId: string, tenantId: string): Promise<void> {
    return this.#records.copy(sourceId, tenantId)
  }

  /** Clears the caches of a purged tenant. */
  forget(tenantId: string): Promise<void> {
    return this.#records.forget(tenantId)
  }

  /** Receives every change of flags by any process. Returns a function that unsubscribes. */
  onChange(listener: ChangeListener): () => void {
    return this.#changes.subscribe(listener)
  }

  series(): readonly Series[] {
    const samples = (): Sample[] => REASONS.map((reason) => ({ labels: { reason }, value: this.#counts[reason] }))
    return [
      {
        name: 'multitenancy_flag_evaluations_total',
        help: 'Evaluations of flags, by reason',
        type: 'counter',
        collect: samples,
      },
    ]
  }

  stop(): Promise<void> {
    return this.#changes.stop()
  }

  /** `evaluate` of a known flag, without an object. */
  #isOn({ rule }: Found, context: EvaluationContext): boolean {
    if (rule === undefined) {
      this.#counts.FLAG_NOT_FOUND++
      return false
    }
    if (!rule.enabled) {
      this.#counts.DISABLED++
      return false
    }
    if (rule.rolloutPercent === null) {
      this.#counts.STATIC++
      return true
    }
    this.#counts.SPLIT++
    return isInRollout(rule, rule.rolloutPercent, context)
  }

  async #find(flagKey: string, { tenantId }: EvaluationContext): Promise<Found> {
    if (!isFlagKey(flagKey) || typeof tenantId !== 'string' || !TENANT_ID.test(tenantId)) return NO_SUCH_FLAG
    this.#changes.listen()
    if (!this.#kernel.database.inTransaction) return this.#decided(tenantId, await this.#cache.find(tenantId, flagKey))
    try {
      const rule = await this.#reads.one(tenantId, flagKey)
      return { rule: rule && prepared(rule), isKnown: true }
    } catch (error) {
      return this.#decided(tenantId, this.#cache.lastKnown(tenantId, flagKey, unreadable(error)))
    }
  }

  async #findAll(tenantId: string): Promise<readonly Found[]> {
    const { inTransaction } = this.#kernel.database
    const { found, failure } = await (inTransaction ? this.#seenWhole(tenantId) : this.#cache.all(tenantId))
    if (failure) this.#degrade(tenantId, failure)
    if (!found) throw this.#kernel.resilience.rejection('database', failure)
    return found
  }

  async #seenWhole(tenantId: string): Promise<Whole> {
    try {
      const rules = await this.#reads.all(tenantId)
      return { found: rules.map((rule) => ({ rule: prepared(rule), isKnown: true })) }
    } catch (error) {
      return this.#cache.lastKnownWhole(tenantId, unreadable(error))
    }
  }

  #decided(tenantId: string, found: Found): Found {
    if (found.failure) this.#degrade(tenantId, found.failure)
    return found
  }

  /** Returns if the evaluation continues with the last known value. */
  #degrade(tenantId: string, failure: TenancyError): void {
    this.#kernel.resilience.degrade('database.flags', 'flags.evaluate', tenantId, failure)
  }

  #evaluated({ rule, isKnown, failure }: Found, context: EvaluationContext): Evaluation {
    const evaluation = evaluate(rule, context)
    const reason = failure === undefined ? evaluation.reason : isKnown ? 'STALE' : 'ERROR'
    this.#counts[reason]++
    return { ...evaluation, reason }
  }

  #explained(key: string, found: Found, context: EvaluationContext): Explanation {
    const evaluation = this.#evaluated(found, context)
    const source = found.rule && evaluation.bucket !== null ? sourceOf(found.rule, context) : undefined
    return { key, ...evaluation, value: source?.value ?? null, valueFrom: source?.from ?? null }
  }
}
