/** Runs the program in the process of the test, with separate environment, standard streams and signal. */
import { PassThrough, Writable } from 'node:stream'
import { postgresStore } from '../drivers/store/postgres.ts'
import { type Opened, openTenancy, satellitesOn } from '../service/main.ts'
import { tablesOf } from '../tenancy/composition.ts'
import { partsOf } from '../tenancy/parts.ts'
import type { TestDatabase } from '../testing/base/database.ts'
import { createMigratedDatabase } from '../testing/base/template.ts'
import { type Ended, reading, type Says } from './output.fixture.ts'
import type { ProcessContext } from './process/context.ts'
import { Interrupted } from './process/stop-signal.ts'
import { run } from './run.ts'

export type { Ended } from './output.fixture.ts'

export interface Run {
  readonly stdin: PassThrough
  readonly ended: Promise<Ended>
  readonly says: Says
  /** Aborts the run as Ctrl-C does. */
  interrupt(): Promise<Ended>
}

interface RunOptions {
  readonly env?: NodeJS.ProcessEnv
  /** Content of standard input. Default: standard input stays open. */
  readonly stdin?: string
  /** Whether the run has its own tenancy. Default: runs with the same configuration share one until `close`. */
  readonly isAlone?: boolean
}

export interface InProcess {
  start(argv: readonly string[], options?: RunOptions): Run
  /** Runs a command until it ends. */
  run(...argv: string[]): Promise<Ended>
  /** Interrupts unfinished runs, and stops the shared tenancies. The next run opens another. */
  close(): Promise<void>
}

/** @param env the whole environment. */
export function inProcess(env: NodeJS.ProcessEnv): InProcess {
  const running = new Set<Run>()
  const tenancies = new Map<string, Promise<Opened>>()
  const openShared: typeof openTenancy = async (config, options) => {
    const satellites = Array.isArray(config.satellites) ? config.satellites.map(({ name }) => name) : config.satellites
    const key = JSON.stringify([{ ...config, satellites }, options.role])
    // The first run receives the log of the tenancy.
    const opened = tenancies.get(key) ?? openTenancy(config, { ...options, signal: undefined })
    tenancies.set(key, opened)
    opened.catch(() => tenancies.delete(key))
    return { ...(await opened), stop: async () => undefined }
  }
  const start: InProcess['start'] = (argv, { env: more = {}, stdin: text, isAlone = false } = {}) => {
    const stop = new AbortController()
    const output = { stdout: '', stderr: '' }
    const streamTo = (name: 'stdout' | 'stderr') =>
      new Writable({
        write(chunk, _encoding, done) {
          output[name] += chunk
          done()
        },
      })
    const stdin = new PassThrough()
    if (text !== undefined) stdin.end(text)
    const context: ProcessContext = {
      env: { ...env, ...more },
      stdin,
      stdout: streamTo('stdout'),
      stderr: streamTo('stderr'),
      on: () => undefined,
    }
    const ended = run(argv, context, stop.signal, isAlone ? undefined : openShared).then(
      (code): Ended => ({ code, ...output }),
    )
    const one: Run = {
      stdin,
      ended,
      says: reading(output, ended),
      interrupt: () => {
        stop.abort(new Interrupted('interrupted'))
        return ended
      },
    }
    running.add(one)
    ended.finally(() => running.delete(one))
    return one
  }
  return {
    start,
    run: (...argv) => start(argv, { stdin: '' }).ended,
    async close() {
      await Promise.all([...running].map((one) => one.interrupt()))
      const opened = await Promise.allSettled(tenancies.values())
      tenancies.clear()
      await Promise.all(opened.map((one) => one.status === 'fulfilled' && one.value.stop()))
    },
  }
}

/** Creates a database with the tables of a program without a configuration file. */
export const createProgramDatabase = (serverUrl: string): Promise<TestDatabase> =>
  createMigratedDatabase(serverUrl, tablesOf(partsOf(postgresStore(), satellitesOn({ satellites: {} }))))
