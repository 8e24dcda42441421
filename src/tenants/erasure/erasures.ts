/** The service of erasures: requests, reads and carries out the erasure of tenants. */
import { equalInConstantTime } from '../../kernel/crypto/crypto.ts'
import type { ErasableSystem, FoundData } from '../../kernel/erasable.ts'
import type { Part } from '../../kernel/part-definition.ts'
import type { Transitions } from '../lifecycle/transitions.ts'
import type { Registry } from '../registry/registry.ts'
import { tenantNotFound } from '../tenant/errors.ts'
import { type EraseRequest, type Erasure, toErasure } from './erasure.ts'
import { ErasureNotFound } from './errors.ts'
import { EraseTenant } from './job-types.ts'
import { requestErasure } from './request.ts'
import { type WorkOptions, work } from './runner.ts'
import { bound, orderedSystems, type System, type SystemDependencies } from './systems.ts'
import { COLUMNS, type ErasureRow, type SigningKey, TABLE } from './tables.ts'

/** Keeps signatures of the application key apart from its other uses. */
const PURPOSE = 'erasure report'
const RECOVERED_AT_ONCE = 1_000

export interface ErasureSettings {
  /** Days after which base backups and WAL of the servers are deleted; default 35. Only for the report. */
  readonly serverBackupsDays: number
  /** Whether personal fields of audit entries are encrypted with a key per tenant, which an erasure destroys; default `keep`. */
  readonly auditFields: 'keep' | 'encrypt'
}

export interface ErasuresDependencies extends SystemDependencies {
  readonly registry: Registry
  readonly transitions: Transitions
  readonly settings: ErasureSettings
}

/** A part and its service, which the composition registers. */
export interface RegisteredPart {
  readonly part: Part
  readonly service: unknown
}

interface SettledOptions {
  readonly isDone?: (erasure: Erasure) => boolean
  readonly show?: (erasure: Erasure) => void
}

export class Erasures {
  readonly settings: ErasureSettings
  readonly #dependencies: ErasuresDependencies
  #systems: readonly System[] = []
  #signWithAuditKey: ((text: string) => Promise<string>) | undefined

  constructor(dependencies: ErasuresDependencies) {
    this.#dependencies = dependencies
    this.settings = dependencies.settings
  }

  /** Takes the declarations of all parts, after their services were created. */
  register(parts: readonly RegisteredPart[]): void {
    const declared = parts.flatMap(({ part, service }) =>
      (part.erase?.systems ?? []).map((system: ErasableSystem) => bound(service, system)),
    )
    this.#systems = orderedSystems(
      this.#dependencies,
      declared,
      parts.map(({ part }) => part),
    )
    for (const { part, service } of parts) {
      const { sign } = part.erase ?? {}
      if (sign) this.#signWithAuditKey = (text) => sign(service, text)
    }
  }

  /**
   * Requests the erasure of a tenant in any state. A repeated request returns the erasure.
   *
   * @throws E_CONFIRMATION_MISMATCH, E_TENANT_NOT_FOUND, E_TENANT_STATE for another choice of `billing`, or a 400
   * @example await tenants.erasures.request('acme', { confirm: 'acme', reason: 'request 4711' })
   */
  async request(id: string, options: EraseRequest): Promise<Erasure> {
    const requested = await requestErasure(this.#dependencies, id, options)
    return requested ? toErasure(requested, null) : this.get(id)
  }

  /** `E_TENANT_NOT_FOUND`, `E_ERASURE_NOT_FOUND`. */
  async get(id: string): Promise<Erasure> {
    const row = await this.#row(id)
    if (row) return toErasure(row, await this.#isValid(row))
    const { rows } = await this.#dependencies.kernel.database.sql('select from multitenancy.tenants where id = $1', [
      id,
    ])
    if (rows.length === 0) throw tenantNotFound(id)
    throw ErasureNotFound(`No erasure of tenant "${id}" was requested.`)
  }

  /** What an erasure would find now, by system. Changes nothing. */
  async plan(
    id: string,
    billing: 'keep' | 'delete' = 'keep',
  ): Promise<{ system: string; found: readonly FoundData[] }[]> {
    const plan = []
    for (const { name, find } of this.#systems) {
      plan.push({ system: name, found: await find({ tenantId: id, billing, references: [] }) })
    }
    return plan
  }

  /** Resolves with the completed erasure, or with its current state if `signal` aborts or `isDone` accepts it. */
  settled(
    id: string,
    signal: AbortSignal,
    { isDone = ({ state }) => state === 'completed', show }: SettledOptions = {},
  ): Promise<Erasure> {
    const look = async () => {
      const erasure = await this.get(id)
      show?.(erasure)
      return erasure
    }
    return this.#dependencies.registry.until(id, look, isDone, signal)
  }

  /** One attempt; no effect while another worker carries it out. Does not throw if a system is unavailable: `waitingFor` names it. */
  work(id: string, options: WorkOptions): Promise<void> {
    const { kernel, registry, settings } = this.#dependencies
    const { serverBackupsDays } = settings
    const sign = (text: string) => this.#sign(text)
    return work({ kernel, registry, systems: this.#systems, serverBackupsDays, sign }, id, options)
  }

  /** The job of every minute: sends the jobs of erasures that no worker carries out. */
  async recover(): Promise<void> {
    const { database, jobs } = this.#dependencies.kernel
    const { rows } = await database.sql(
      `select tenant_id as id from ${TABLE} where state = 'pending' or (state = 'running' and lease_until < now())
       order by requested_at limit ${RECOVERED_AT_ONCE}`,
    )
    const waiting = rows.map(({ id }: { id: string }) => ({ data: { tenantId: id }, key: id }))
    await jobs.sendAll(EraseTenant, waiting)
  }

  async #row(id: string): Promise<ErasureRow | undefined> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      `select ${COLUMNS} from ${TABLE} where tenant_id = $1`,
      [id],
    )
    return rows[0]
  }

  async #sign(text: string): Promise<{ value: string; key: SigningKey }> {
    if (this.#signWithAuditKey) return { value: await this.#signWithAuditKey(text), key: 'audit' }
    return { value: this.#dependencies.kernel.secrets.sign(text, PURPOSE), key: 'application' }
  }

  /** Null for the audit key if its satellite is disabled. */
  async #isValid({ report, signature, signedWith }: ErasureRow): Promise<boolean | null> {
    if (report === null || signature === null) return null
    if (signedWith === 'application') return this.#dependencies.kernel.secrets.verify(report, PURPOSE, signature)
    return this.#signWithAuditKey ? equalInConstantTime(await this.#signWithAuditKey(report), signature) : null
  }
}
