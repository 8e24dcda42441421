/**
 * Runs a walk: rounds of actions, and after each the comparison of the registry with the model. After a settled round
 * it also checks the caches of all processes, rejections by servers, rows of tenants, and remaining data of purged
 * tenants.
 */
import { expect } from 'vitest'
import { eventually } from '../../src/testing/base/tenancy.ts'
import type { Task, TaskResult } from './actor.ts'
import { Notes } from './known-notes.ts'
import {
  ABSENT,
  aged,
  beliefIn,
  explained,
  isShown,
  mustBeClosed,
  type Observation,
  rejectionOf,
  type State,
  settled,
  withJobs,
  wordsOf,
} from './model.ts'
import { nameOfWalk, type Processes } from './processes.ts'
import {
  type Act,
  type Action,
  CLOSES,
  MIGRATES,
  PROCESSES,
  type ProcessName,
  READS,
  REPEATED,
  type Round,
  type Step,
  TENANTS,
  type TenantName,
  WRITES,
  wordsOf as wordsOfRound,
} from './steps.ts'
import { claimsNoMore, isOpen, nothingIsLeft, type Registered, registered, rejectsEverybody } from './storage.ts'

const SETTLES_WITHIN_MS = 90_000

/** Errors of sessions that a fence has ended, which happens with a database for each tenant. */
const SESSION_LOST = /57P01|ECONNRESET|EPIPE|terminat|Connection|not queryable/

interface Walked {
  readonly name: TenantName
  readonly id: string
  readonly isolation: string
  readonly notes: Notes
  states: readonly State[]
  recent: ReadonlySet<string | null>
  /** Whether sessions may have been ended that a process still uses. */
  hasClosed: boolean
}

/** Throws at the first violation. */
export async function walk(processes: Processes, steps: readonly Step[]): Promise<void> {
  const walker = new Walker(processes)
  for (const step of steps) {
    if (step === 'a month passes') walker.passMonth()
    else await walker.round(step)
  }
  await walker.settle()
  await walker.purgeAll()
}

class Walker {
  readonly #processes: Processes
  readonly #tenants: readonly Walked[]
  readonly #walk = nameOfWalk()
  #number = 0
  #mayBeMigrating = false
  /** Started actions that may be unfinished: their jobs would run again. */
  #again: Task[] = []

  constructor(processes: Processes) {
    this.#processes = processes
    this.#tenants = Object.entries(TENANTS).map(([name, isolation]) => ({
      name: name as TenantName,
      id: `${this.#walk}-${name}`,
      isolation,
      notes: new Notes(`${this.#walk}-${name}`),
      states: [ABSENT],
      recent: new Set([rejectionOf(ABSENT)]),
      hasClosed: false,
    }))
  }

  passMonth(): void {
    this.#processes.passMonth()
    for (const tenant of this.#tenants) tenant.states = aged(withJobs(tenant.states))
  }

  async round(round: Round): Promise<void> {
    const started = round.actions.map((action) => ({ action, task: this.#taskOf(action) }))
    for (const { task } of started) if (WRITES.includes(task.act)) this.#named(task.id).notes.begin(task.number)
    const results = await Promise.all(
      started.map(async ({ action, task }) => ({
        action,
        task,
        result: await this.#processes.carryOut(action.process, task, action.fault),
      })),
    )
    try {
      const migrating = results.filter(({ action }) => MIGRATES.includes(action.act))
      this.#mayBeMigrating ||= migrating.length > 1 || migrating.some((one) => one.result.kind !== 'done')
      for (const tenant of this.#tenants) this.#explain(tenant, results)
      await this.#look()
      if (round.settles) await this.settle()
    } catch (error) {
      const words = results.map(
        (one) => `${one.action.process} ${one.task.act} ${one.task.id}: ${JSON.stringify(one.result)}`,
      )
      throw new Error(`${wordsOfRound(round)}\n    ${words.join('\n    ')}\n  ${(error as Error).message}`, {
        cause: error,
      })
    }
  }

  async settle(): Promise<void> {
    await this.#processes.whole()
    await this.#endMigrations()
    for (const task of this.#again.splice(0)) {
      const result = await this.#processes.carryOut('beside', task, null)
      const tenant = this.#named(task.id)
      this.#narrow(tenant, [{ act: task.act, result }])
    }
    await this.#jobsHaveEnded()
    const rows = await this.#look()
    for (const tenant of this.#tenants) {
      const before = tenant.states
      tenant.states = settled(before)
      expect(tenant.states, `${tenant.id}, formerly ${wordsOf(before)}, has no remaining job`).not.toEqual([])
      const row = rows.get(tenant.id)
      await this.#everybodyKnows(tenant)
      tenant.recent = new Set(tenant.states.map(rejectionOf))
      if (row) await this.#examine(tenant, row)
      tenant.hasClosed = false
    }
    await this.#storageAgrees()
  }

  /** Final check of every walk: all tenants can be purged, and nothing is left. */
  async purgeAll(): Promise<void> {
    const alone = (tenant: Walked, act: Act): Round => {
      const process = tenant.isolation === 'sqlite-memory' ? 'here' : 'beside'
      return { actions: [{ tenant: tenant.name, act, process, fault: null }], settles: false }
    }
    const left = this.#tenants.filter(({ states }) =>
      states.some(({ status }) => !['absent', 'purged'].includes(status)),
    )
    for (const tenant of left) await this.round(alone(tenant, 'delete'))
    this.passMonth()
    for (const tenant of left) {
      await this.round(alone(tenant, 'purge'))
      expect(tenant.states.map(({ status }) => status)).toEqual(['purged'])
    }
    await this.settle()
  }

  #taskOf({ tenant: name, act }: Action): Task {
    const { id, isolation } = this.#tenants.find((one) => one.name === name) ?? expect.fail(name)
    return { act, id, isolation, number: ++this.#number }
  }

  #named(id: string): Walked {
    return this.#tenants.find((one) => one.id === id) ?? expect.fail(id)
  }

  #explain(tenant: Walked, all: readonly { action: Action; task: Task; result: TaskResult }[]): void {
    const own = all.filter(({ task }) => task.id === tenant.id || task.act === 'purgeExpired')
    tenant.hasClosed ||= own.some(({ task }) => CLOSES.includes(task.act))
    for (const { action, task, result } of own) {
      const isExcused = action.fault !== null || this.#isExcused(tenant, task, result)
      if (result.kind === 'failed' && !isExcused) expect.fail(`${task.act} of ${task.id} has failed: ${result.words}`)
      if (result.kind !== 'done' && REPEATED.includes(task.act)) this.#again.push(task)
      if (WRITES.includes(task.act)) {
        const isInDoubt = result.kind === 'nothing' || result.kind === 'failed' || own.length > 1
        tenant.notes.end(task.number, result.kind === 'done' ? 'written' : isInDoubt ? 'in doubt' : 'refused')
      }
    }
    for (const one of own) {
      if (READS.includes(one.task.act) && one.result.kind === 'done')
        tenant.notes.check(one.result.value, own.length === 1)
    }
    if (own.length > 0)
      this.#narrow(
        tenant,
        own.map((one) => ({ act: one.task.act, result: one.result })),
      )
  }

  #isExcused({ isolation, hasClosed }: Walked, { act }: Task, result: TaskResult): boolean {
    if (result.kind !== 'failed' || isolation !== 'database-pg' || !hasClosed) return false
    return [...WRITES, ...READS].includes(act) && SESSION_LOST.test(result.words)
  }

  #narrow(tenant: Walked, observations: readonly Observation[]): void {
    const { states: before, recent } = tenant
    const { states, rejections } = explained(before, observations, {
      recent,
      mayBeMigrating: this.#mayBeMigrating,
      isShared: tenant.isolation === 'rowscope-pg',
    })
    const words = observations.map(({ act, result }) => `${act}: ${JSON.stringify(result)}`).join(', ')
    expect(states, `${tenant.id}, formerly ${wordsOf(before)}, does not explain ${words}`).not.toEqual([])
    tenant.states = states
    tenant.recent = rejections
  }

  /** Compares the registry with the model. */
  async #look(): Promise<Map<string, Registered>> {
    const rows = await registered(
      this.#processes.database,
      this.#tenants.map(({ id }) => id),
    )
    for (const tenant of this.#tenants) {
      const row = rows.get(tenant.id)
      const possible = withJobs(tenant.states)
      tenant.states = possible.filter((state) => isShown(state, row))
      const shown = JSON.stringify(row ?? 'absent')
      expect(tenant.states, `${tenant.id} is ${shown}, expected ${wordsOf(possible)}`).not.toEqual([])
    }
    return rows
  }

  /** A run of a killed process blocks other runs until it has failed. */
  async #endMigrations(): Promise<void> {
    if (!this.#mayBeMigrating) return
    await this.#processes.beside.tenants.migrations.cancel()
    this.#mayBeMigrating = false
  }

  #jobsHaveEnded(): Promise<void> {
    const ids = this.#tenants.map(({ id }) => id)
    return eventually(async () => {
      const { rows } = await this.#processes.database.sql(
        `select name, singleton_key, state from multitenancy_jobs.job
         where state < 'completed' and singleton_key = any ($1)`,
        [ids],
      )
      expect(rows).toEqual([])
    }, SETTLES_WITHIN_MS)
  }

  async #everybodyKnows({ id, states, isolation }: Walked): Promise<void> {
    const known = states.map(beliefIn)
    for (const process of processesOf(isolation)) {
      await eventually(async () => expect(known, process).toContain(await this.#processes.believes(process, id)))
    }
  }

  async #examine(tenant: Walked, row: Registered): Promise<void> {
    const { database, here, beside } = this.#processes
    const [state] = tenant.states
    if (!state) return
    const tenancy = tenant.isolation === 'sqlite-memory' ? here : beside
    if (mustBeClosed(state)) await rejectsEverybody(tenancy, row)
    if (state.status === 'purged') await nothingIsLeft(database, row)
    if (state.status !== 'active') return
    if (!state.isMaintained) {
      await this.#read(tenant)
      await isOpen(tenancy, row)
    }
    await claimsNoMore(tenancy, database, row)
  }

  /** Reads in every process, with a kept handle and with a new one. */
  async #read(tenant: Walked): Promise<void> {
    const { id, isolation } = tenant
    for (const process of processesOf(isolation)) {
      for (const act of READS) {
        const ask = async () => {
          const result = await this.#processes.carryOut(process, { act, id, isolation, number: 0 }, null)
          if (result.kind !== 'done') expect.fail(`${process} ${act} ${id}: ${JSON.stringify(result)}`)
          return result.value
        }
        // The next statement detects that a fence has ended the session.
        const notes = isolation === 'database-pg' && tenant.hasClosed ? await eventually(ask) : await ask()
        tenant.notes.check(notes, true)
      }
    }
  }

  /** The doctor reports no incomplete storage. */
  async #storageAgrees(): Promise<void> {
    const { reconciliation } = this.#processes.beside.tenants
    for (const driver of reconciliation.drivers.filter((one) => one.inventory)) {
      const found = await Array.fromAsync(reconciliation.mismatches(driver, 'main'))
      const own = found.filter(({ locator }) => locator.includes(this.#walk))
      const isMaintained = (id: string) => this.#named(id).states.some((state) => state.isMaintained)
      expect(own.filter((one) => one.kind !== 'closed' || !isMaintained(one.tenantId))).toEqual([])
    }
  }
}

/** Storage in memory is available in one process only. */
const processesOf = (isolation: string): readonly ProcessName[] =>
  isolation === 'sqlite-memory' ? ['here'] : PROCESSES
