/** Performs actions in one tenancy, and returns their results. */
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import type { Tenant } from '../../src/tenants/handles/handle.ts'
import { InstallTenant } from '../../src/tenants/tenant/job-types.ts'
import { readNotes, writePair } from './notes.ts'
import type { Act } from './steps.ts'

/** After this time, claims of a killed process on a migration run expire. */
const LEASE_MS = 1_000

export interface Task {
  readonly act: Act
  readonly id: string
  readonly isolation: string
  /** Number of the pair to write. */
  readonly number: number
}

export type TaskResult =
  | { readonly kind: 'done'; readonly value?: any }
  /** With an error code of the contract. */
  | { readonly kind: 'refused'; readonly code: string }
  | { readonly kind: 'failed'; readonly words: string }
  /** The process was killed before it could return a result. */
  | { readonly kind: 'nothing' }

export class Actor {
  readonly #tenancy: Tenancy
  readonly #kept = new Map<string, Tenant>()

  constructor(tenancy: Tenancy) {
    this.#tenancy = tenancy
  }

  async carryOut(task: Task): Promise<TaskResult> {
    try {
      return { kind: 'done', value: await this.#act(task) }
    } catch (error) {
      const { code, status, message } = error as { code?: string; status?: number; message?: string }
      if (code?.startsWith('E_') && status !== undefined) return { kind: 'refused', code }
      return { kind: 'failed', words: `${code ?? ''} ${message ?? error}` }
    }
  }

  /** Status of the tenant in this process's cache. */
  async believes(id: string): Promise<string> {
    const { tenant } = (await this.#tenancy.tenants.registry.find(id)) ?? {}
    return tenant ? `${tenant.status}${tenant.maintenance ? ', maintained' : ''}` : 'absent'
  }

  async #act({ act, id, isolation, number }: Task): Promise<unknown> {
    const { tenants, kernel, transaction } = this.#tenancy
    const { installation, migrations } = tenants
    switch (act) {
      case 'create':
        return void (await tenants.create({ id, name: id, isolation }))
      case 'createWithoutJob':
        return transaction(async () => {
          await tenants.create({ id, name: id, isolation })
          await kernel.jobs.cancel(InstallTenant, id)
        })
      case 'suspend':
      case 'activate':
      case 'delete':
      case 'restore':
        return (await tenants[act](id)).changed
      case 'enterMaintenance':
      case 'exitMaintenance':
        return void (await tenants[act](id))
      case 'install':
        return installation.install(id, { isLast: false })
      case 'close':
        return tenants.fences.close(id)
      case 'purge':
        return installation.purge(id)
      case 'purgeExpired':
        return installation.purgeExpired()
      case 'write':
        return writePair(await this.#handle(id), number, 'statement')
      case 'writeKept':
        return writePair(await this.#keptHandle(id), number, 'statement')
      case 'writeTransaction':
        return writePair(await this.#keptHandle(id), number, 'transaction')
      case 'read':
        return readNotes(await this.#handle(id))
      case 'readKept':
        return readNotes(await this.#keptHandle(id))
      case 'migrate':
        return (await migrations.run({ ids: [id], leaseMs: LEASE_MS })).state
      case 'rollback':
        return (await migrations.rollback({ ...rolledBackWith(id, isolation), steps: 1, leaseMs: LEASE_MS })).state
    }
  }

  /** First handle of the tenant in this process, however old. */
  async #keptHandle(id: string): Promise<Tenant> {
    return this.#kept.get(id) ?? (await this.#handle(id))
  }

  async #handle(id: string): Promise<Tenant> {
    const handle = await this.#tenancy.tenant(id)
    if (!this.#kept.has(id)) this.#kept.set(id, handle)
    return handle
  }
}

/** Tenants with shared tables are rolled back together. */
const rolledBackWith = (id: string, isolation: string) => (isolation === 'rowscope-pg' ? {} : { ids: [id] })
