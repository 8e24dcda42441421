/**
 * The outbox: entries that calls inside a tenant's transaction post, and that are applied in the backoffice after its
 * commit.
 *
 *   tenant's transaction: INSERT .. ; select tenantry.post(..) ; COMMIT ──► relay of this process
 *                                                                  └─ killed here: relay of a worker
 *   relay   [tenant's server]  begin; delete from tenantry.outbox .. returning
 *           [backoffice]       begin; ids into outbox_received; apply those that are new; commit
 *           [tenant's server]  commit
 *
 * - An entry exists if the tenant's transaction has committed, and is applied once: killed before the commit of the
 *   backoffice, both transactions are rolled back; killed after it, the entry appears again and its id is known.
 * - Workers look at each server with shared databases every second, and at databases of tenants by their marks.
 * - Entries have no order.
 */
import { forEachConcurrent } from '../../kernel/base/concurrency.ts'
import { asSystem } from '../../kernel/base/context.ts'
import { repeat } from '../../kernel/base/repeat.ts'
import { isDatabaseUnavailable } from '../../kernel/database/availability.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { IsolationDriver, StorageLocation } from '../isolation/driver.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { PostedEntry, PostStatement, RelayOptions, UnknownKind } from '../isolation/outbox.ts'
import { type Registry, toLocation } from '../registry/registry.ts'
import { Application } from './application.ts'
import { FailedEntries } from './failed-entries.ts'
import { type Mark, Marks } from './marks.ts'
import { newEntry } from './posting.ts'

const POLL_MS = 1_000
const MARKS_POLL_MS = 5_000
const MARKED_AT_ONCE = 8
/** Databases of tenants whose waiting entries are read. */
const MAX_EXAMINED = 200

export class Outbox {
  readonly failed: FailedEntries
  readonly #kernel: Kernel
  readonly #storage: Storage
  readonly #registry: Pick<Registry, 'row'>
  readonly #application: Application
  readonly #marks: Marks
  /** Databases with a relay in progress; true: it runs once more. */
  readonly #running = new Map<string, boolean>()
  readonly #relays = new Set<Promise<void>>()
  /** Databases whose relay has failed, to be tried again by this process. */
  readonly #unrelayed = new Map<string, StorageLocation>()
  readonly #stops: (() => Promise<void>)[] = []
  #isStopped = false

  constructor(kernel: Kernel, storage: Storage, registry: Pick<Registry, 'row'>) {
    this.#kernel = kernel
    this.#storage = storage
    this.#registry = registry
    this.#application = new Application(kernel)
    this.failed = new FailedEntries(kernel, this.#application)
    this.#marks = new Marks(kernel.database)
  }

  /** The statement that posts an entry in a tenant's transaction. */
  statement({ outbox }: IsolationDriver, tenantId: string, kind: string, payload: object, id?: string): PostStatement {
    return outbox.post(newEntry(this.#kernel, tenantId, kind, payload, id))
  }

  /** Prepares the storage for statements that post. `E_DEPENDENCY_UNAVAILABLE` */
  async prepare(driver: IsolationDriver, location: StorageLocation): Promise<void> {
    await driver.outbox.prepare(location)
    if (driver.outbox.whileEmpty) await this.#marks.mark(location)
  }

  /**
   * The same for a program that connects to the storage itself: call it before its transaction posts.
   * `E_TENANT_NOT_FOUND`
   */
  async mark(tenantId: string): Promise<void> {
    const location = toLocation(await this.#registry.row(tenantId))
    const { outbox } = this.#storage.driver(location.isolation)
    await outbox.prepare(location)
    if (outbox.whileEmpty) await this.#marks.renew(location)
  }

  /** Relays entries of such a program: call it after its commit. `E_TENANT_NOT_FOUND` */
  async relay(tenantId: string): Promise<void> {
    this.wake(toLocation(await this.#registry.row(tenantId)))
  }

  /** Runs a statement that posts. */
  async posting<T>(driver: IsolationDriver, location: StorageLocation, post: () => Promise<T>): Promise<T> {
    await driver.outbox.prepare(location)
    return driver.outbox.whileEmpty ? this.#marks.during(location, post) : post()
  }

  /** Relays entries of committed transactions, in the background. */
  wake(location: StorageLocation): void {
    if (this.#isStopped) return
    const key = this.#databaseOf(location)
    const isRunning = this.#running.has(key)
    this.#running.set(key, isRunning)
    if (isRunning) return
    const relay: Promise<void> = asSystem(() => this.#relayWhileWoken(key, location)).finally(() =>
      this.#relays.delete(relay),
    )
    this.#relays.add(relay)
  }

  /** Relays all entries of a tenant's storage that is about to be dropped. */
  async empty(location: StorageLocation): Promise<void> {
    const driver = this.#storage.driver(location.isolation)
    if (driver.outbox.whileEmpty) await driver.fence(location) // ends transactions that may post
    await this.#relay(location, { tenantId: driver.outbox.whileEmpty ? undefined : location.tenantId })
  }

  /** Lets workers look at all databases of tenants, after a restore of the backoffice. */
  markAll(): Promise<void> {
    const own = this.#storage.drivers.filter(({ outbox }) => outbox.whileEmpty)
    return this.#marks.markAll(own.map(({ name }) => name))
  }

  /** Forgets storage that no statement can reach any more. */
  async forget(location: StorageLocation): Promise<void> {
    const driver = this.#storage.drivers.find(({ name }) => name === location.isolation)
    if (!driver || driver.outbox.whileEmpty) await this.#marks.forget(location)
  }

  /** Age in seconds of the oldest entry, by placement; without unavailable ones. */
  async oldestSeconds(): Promise<ReadonlyMap<string, number>> {
    const ages = new Map<string, number>()
    const unread = new Set<string>()
    const read = async (location: StorageLocation) => {
      const { outbox } = this.#storage.driver(location.isolation)
      const { placement } = location
      const age = await outbox.oldestSeconds?.(location).catch(() => void unread.add(placement))
      if (age !== undefined) ages.set(placement, Math.max(age, ages.get(placement) ?? 0))
    }
    await forEachConcurrent(await this.#places(), MARKED_AT_ONCE, read)
    for (const placement of this.#shared ? [] : this.#storage.placements) {
      if (!ages.has(placement) && !unread.has(placement)) ages.set(placement, 0)
    }
    return ages
  }

  /**
   * Waiting entries of kinds that this process does not know, of a newer release or of a missing satellite, by
   * placement; without unavailable ones.
   */
  async unknownKinds(): Promise<readonly (UnknownKind & { readonly placement: string })[]> {
    const { names } = this.#kernel.outbox
    const found = new Map<string, UnknownKind & { readonly placement: string }>()
    const read = async (location: StorageLocation) => {
      const { outbox } = this.#storage.driver(location.isolation)
      const { placement } = location
      for (const { kind, count, since } of (await outbox.unknownKinds?.(location, names).catch(() => [])) ?? []) {
        const key = JSON.stringify([placement, kind])
        const before = found.get(key) ?? { count: 0, since }
        const first = before.since < since ? before.since : since
        found.set(key, { placement, kind, count: before.count + count, since: first })
      }
    }
    await forEachConcurrent(await this.#places(), MARKED_AT_ONCE, read)
    return [...found.values()]
  }

  /** Deletes the ids of entries that were applied long ago. */
  prune(): Promise<void> {
    return this.#application.prune()
  }

  /** Tries failed relays again. */
  start(): void {
    const again = async () => {
      for (const location of this.#unrelayed.values()) this.wake(location)
    }
    this.#stops.push(repeat(again, POLL_MS, () => undefined))
  }

  /** Finds entries of killed processes, in a worker. */
  work(): void {
    const shared = this.#shared
    const poll = async () => {
      if (!shared) return
      for (const placement of this.#storage.placements) this.wake(wholeDatabase(shared, placement))
    }
    this.#repeat(poll, POLL_MS)
    this.#repeat(() => this.relayMarked(), MARKS_POLL_MS)
  }

  /** Relays databases whose marks no process has renewed. @param clock default: `performance.now` */
  async relayMarked(clock?: () => number): Promise<void> {
    const relay = async (mark: Mark) => {
      try {
        await this.#relay(mark, { kinds: this.#kernel.outbox.names })
        await this.#storage.driver(mark.isolation).outbox.whileEmpty?.(mark, () => this.#marks.delete(mark))
      } catch (error) {
        this.#logFailure(mark, error)
      }
    }
    await forEachConcurrent(await this.#marks.claim(clock), MARKED_AT_ONCE, relay)
  }

  /** Resolves when no relay of this process is in progress. */
  async settled(): Promise<void> {
    while (this.#relays.size > 0) await Promise.all(this.#relays)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    for (const stop of this.#stops) await stop()
    await this.settled()
  }

  /** A driver whose tenants share the database of a placement, and so its outbox. */
  get #shared(): IsolationDriver | undefined {
    return this.#storage.drivers.find(({ outbox }) => outbox.isShared)
  }

  /** Shared databases, and databases of tenants with a mark; without the latter while the backoffice is unavailable. */
  async #places(): Promise<readonly StorageLocation[]> {
    const shared = this.#shared
    const marked = this.#marks.some(MAX_EXAMINED).catch((error) => {
      if (!isDatabaseUnavailable(error)) throw error
      return []
    })
    return [
      ...(shared ? this.#storage.placements.map((placement) => wholeDatabase(shared, placement)) : []),
      ...(await marked),
    ]
  }

  #databaseOf({ isolation, placement, locator }: StorageLocation): string {
    const { isShared } = this.#storage.driver(isolation).outbox
    return JSON.stringify([placement, ...(isShared ? [] : [isolation, locator])])
  }

  async #relayWhileWoken(key: string, location: StorageLocation): Promise<void> {
    try {
      do {
        this.#running.set(key, false)
        await this.#relay(location, { kinds: this.#kernel.outbox.names })
      } while (this.#running.get(key) && !this.#isStopped)
      this.#unrelayed.delete(key)
    } catch (error) {
      if (!this.#unrelayed.has(key)) this.#logFailure(location, error)
      this.#unrelayed.set(key, location)
    } finally {
      this.#running.delete(key)
    }
  }

  async #relay(location: StorageLocation, options: RelayOptions): Promise<void> {
    const apply = (entries: readonly PostedEntry[]) => this.#application.apply(entries)
    await this.#storage.driver(location.isolation).outbox.relay(location, options, apply)
  }

  #logFailure({ placement, tenantId }: StorageLocation, error: unknown): void {
    if (this.#isStopped) return
    const where = tenantId === '' ? { placement } : { placement, tenantId }
    // The health checks report a server that is unavailable.
    const level = isDatabaseUnavailable(error) ? 'debug' : 'warn'
    this.#kernel.database.log[level](
      { err: error, ...where },
      'entries of the outbox could not be relayed; trying again',
    )
  }

  #repeat(work: () => Promise<void>, everyMs: number): void {
    const failed = (error: unknown) => this.#kernel.database.log.warn({ err: error }, 'the outbox could not be read')
    this.#stops.push(asSystem(() => repeat(work, everyMs, failed)))
  }
}

const wholeDatabase = ({ name }: IsolationDriver, placement: string): StorageLocation => ({
  tenantId: '',
  isolation: name,
  placement,
  locator: '',
  epoch: 0,
})
