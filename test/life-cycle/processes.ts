/** Processes of a walk on one database. A killed process is replaced after its statements have ended. */
import { randomBytes } from 'node:crypto'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { Database } from '../../src/kernel/database/database.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import { createTestDatabase } from '../../src/testing/base/database.ts'
import { dropWithRoles } from '../../src/testing/base/roles.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Child, startChild } from '../support/child.ts'
import { Actor, type Task, type TaskResult } from './actor.ts'
import type { Fault, ProcessName } from './steps.ts'
import { openTenancy } from './tenancy.ts'

const PROGRAM = new URL('./process.fixture.ts', import.meta.url)
const MONTH_MS = 31 * 86_400_000
const ENDS_WITHIN_MS = 30_000

interface Far {
  readonly child: Child
  readonly pid: number
}

export class Processes {
  readonly here: Tenancy
  readonly beside: Tenancy
  /** Superuser connection for checks, without faults. */
  readonly database: Database
  readonly #drop: () => Promise<void>
  readonly #url: string
  readonly #actors: Readonly<Record<'here' | 'beside', Actor>>
  readonly #clock: { offsetMs: number }
  #far: Promise<Far>
  /** Number of kills and of cut connections. */
  readonly faults = { killed: 0, cut: 0 }

  static async open(serverUrl: string): Promise<Processes> {
    const created = await createTestDatabase(serverUrl)
    const { url } = created
    const clock = { offsetMs: 0 }
    const offsetMs = () => clock.offsetMs
    const here = await openTenancy({ url, role: 'all', offsetMs, hasMemory: true })
    const beside = await openTenancy({ url, role: 'api', offsetMs, hasMemory: true })
    return new Processes({ here, beside, url, clock, drop: () => dropWithRoles(serverUrl, created) })
  }

  private constructor(given: {
    here: Tenancy
    beside: Tenancy
    url: string
    clock: { offsetMs: number }
    drop: () => Promise<void>
  }) {
    this.here = given.here
    this.beside = given.beside
    this.#url = given.url
    this.#clock = given.clock
    this.#drop = given.drop
    this.#actors = { here: new Actor(given.here), beside: new Actor(given.beside) }
    this.database = new Database({ url: given.url, max: 4 }, createLogger({ level: 'silent' }))
    this.#far = this.#start()
  }

  async carryOut(process: ProcessName, task: Task, fault: Fault | null): Promise<TaskResult> {
    return process === 'far' ? this.#askFar(task, fault) : this.#actors[process].carryOut(task)
  }

  /** Status of the tenant in the cache of each process. */
  async believes(process: ProcessName, id: string): Promise<string> {
    if (process !== 'far') return this.#actors[process].believes(id)
    return (await this.#far).child.request({ ask: 'believes', id })
  }

  passMonth(): void {
    this.#clock.offsetMs += MONTH_MS
  }

  /** Waits until a killed process has been replaced. */
  async whole(): Promise<void> {
    await this.#far
  }

  async end(): Promise<void> {
    await (await this.#far).child.kill('SIGKILL')
    await Promise.all([this.here.stop(), this.beside.stop()])
    await this.database.close()
    await this.#drop()
  }

  async #start(): Promise<Far> {
    const child = await startChild(PROGRAM, { url: this.#url })
    return { child, pid: await child.request({ ask: 'pid' }) }
  }

  async #askFar(task: Task, fault: Fault | null): Promise<TaskResult> {
    const far = this.#far
    const { child, pid } = await far
    const { offsetMs } = this.#clock
    try {
      const { result, cut } = await child.request({ task, fault, offsetMs })
      if (cut !== undefined) await this.#gone('pid = $1', cut)
      if (cut !== undefined) this.faults.cut++
      // Its result is incomplete: the response on the cut connection is lost.
      return cut !== undefined && result.kind !== 'done' ? { kind: 'nothing' } : result
    } catch {
      await this.#gone('application_name = $1', `life-cycle ${pid}`)
      if (this.#far === far) {
        this.faults.killed++
        await child.kill('SIGKILL')
        this.#far = this.#start()
      }
      return { kind: 'nothing' }
    }
  }

  /** Waits for statements of a lost process: the server runs what was sent. */
  #gone(which: string, value: unknown): Promise<void> {
    return eventually(async () => {
      const { rows } = await this.database.sql(`select query from pg_stat_activity where ${which}`, [value])
      if (rows.length > 0) throw new Error(`the server still runs a statement of a lost process: ${rows[0].query}`)
    }, ENDS_WITHIN_MS)
  }
}

let walks = 0
/** Prefix of ids, unique for each walk. */
export const nameOfWalk = (): string => `w${randomBytes(3).toString('hex')}${++walks}`
