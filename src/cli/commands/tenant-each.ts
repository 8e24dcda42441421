/**
 * Runs `tenantry tenant:each`: a command of the system for each tenant, several concurrently.
 *
 * - A command is a process group of its own. Ctrl-C of the terminal does not reach it: it receives SIGTERM from here, and SIGKILL
 *   after KILL_AFTER_MS.
 * - Commands that Ctrl-C has ended are not counted as failed. `--resume` runs them again.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { ARGUMENT_END } from '../../kernel/api/commands.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { number } from '../../kernel/base/format.ts'
import { FindingsStand } from '../../kernel/doctor/doctor.ts'
import type { CommandRuns, FailedTenant } from '../../tenants/command-runs/command-runs.ts'
import { RunInProgress } from '../../tenants/tenant/errors.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { withTenancy } from './with-tenancy.ts'

const KILL_AFTER_MS = 5_000
/** Longer, so that the results of killed commands are recorded. */
const GRACE_MS = KILL_AFTER_MS + 2_000
const SHOWN_FAILURES = 10

export async function tenantEach(input: OwnInput): Promise<void> {
  const { args, options, terminal, signal } = input
  if (options.resume && options.status) {
    throw invalid([{ path: 'status', message: 'cannot be given with --resume: a run keeps its tenants' }])
  }
  const command = (args.command ?? '').split(ARGUMENT_END)
  await withTenancy(input, { graceMs: GRACE_MS }, async ({ tenants: { commandRuns } }) => {
    const run: string = options.resume ?? (await commandRuns.start(options.status ?? 'active'))
    if (options.resume) await commandRuns.resume(run)
    const { pending } = await commandRuns.counts(run)
    terminal.say(`run ${run}: ${pending === 1 ? '1 tenant' : `${number(pending)} tenants`}`)
    try {
      await work(commandRuns, run, command, input)
    } finally {
      await commandRuns.leave(run)
    }
    const { total, done, failed, skipped, running, pending: left } = await commandRuns.counts(run)
    const skips = skipped > 0 ? `, ${number(skipped)} skipped` : ''
    const rest = left > 0 ? `, ${number(left)} left` : ''
    terminal.say(`${number(done)} of ${number(total)} done, ${number(failed)} failed${skips}${rest}`)
    if (signal.aborted) terminal.say(`continue with: tenantry tenant:each --resume ${run} -- ...`)
    signal.throwIfAborted()
    if (left + running > 0) {
      throw RunInProgress(
        `Another process has taken over run "${run}": ${number(left + running)} tenants are not done. Wait for its end, or resume the run.`,
      )
    }
    if (failed === 0) return
    const first = (await commandRuns.failures(run, SHOWN_FAILURES)).map(wordsOf).join(', ')
    const others = failed > SHOWN_FAILURES ? ` and ${number(failed - SHOWN_FAILURES)} others` : ''
    throw FindingsStand(
      `The command failed for ${number(failed)} of ${number(total)} tenants: ${first}${others}. Run it again for these with --resume ${run}.`,
    )
  })
}

const wordsOf = ({ id, exitCode }: FailedTenant): string =>
  `${id} (${exitCode === null ? 'ended by a signal' : `exit code ${exitCode}`})`

/** After an error of one worker the others start no further command. */
async function work(runs: CommandRuns, run: string, command: readonly string[], input: OwnInput): Promise<void> {
  const stop = new AbortController()
  const signal = AbortSignal.any([input.signal, stop.signal])
  const worker = async () => {
    while (!signal.aborted) {
      const tenantId = await runs.claim(run)
      if (tenantId === undefined) return
      if (signal.aborted) return await runs.settle(run, tenantId, 'pending', null)
      try {
        const exitCode = await execute(command, tenantId, input)
        const state = exitCode === 0 ? 'done' : 'failed'
        await runs.settle(run, tenantId, input.signal.aborted && exitCode !== 0 ? 'pending' : state, exitCode)
      } catch (error) {
        stop.abort()
        await runs.settle(run, tenantId, 'pending', null)
        throw error
      }
    }
  }
  const results = await Promise.allSettled(Array.from({ length: input.options.concurrency }, worker))
  const failure = results.find((result) => result.status === 'rejected')
  if (failure) throw failure.reason
}

/** Returns the exit code; null if a signal has ended the command. An error while printing ends the command like Ctrl-C. */
async function execute(
  [program = '', ...args]: readonly string[],
  tenantId: string,
  { terminal, context, signal }: OwnInput,
): Promise<number | null> {
  const child = spawn(program, args, {
    env: { ...context.env, TENANTRY_TENANT_ID: tenantId },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const ended = once(child, 'close')
  const { end, release } = endWith(child, signal)
  try {
    await Promise.all([
      ended,
      eachLine(child.stdout, (line) => terminal.item(`${tenantId} | ${line}`, { tenantId, line })),
      eachLine(child.stderr, async (line) => void context.stderr.write(`${tenantId} | ${line}\n`)),
    ])
    return child.exitCode
  } catch (error) {
    if (child.pid === undefined) {
      throw invalid([{ path: 'command', message: `"${program}" cannot be started: ${(error as Error).message}` }])
    }
    end()
    for (const output of [child.stdout, child.stderr]) output.resume() // no line is printed any more
    await ended
    if (!signal.aborted) throw error
    return child.exitCode
  } finally {
    release()
  }
}

async function eachLine(stream: Readable, print: (line: string) => Promise<void>): Promise<void> {
  for await (const line of createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY })) await print(line)
}

/** Ends the process group of a command when `signal` aborts, or when this process exits, until `release`. */
function endWith(child: ChildProcess, signal: AbortSignal): { readonly end: () => void; readonly release: () => void } {
  let timer: NodeJS.Timeout | undefined
  const end = () => {
    if (timer) return
    kill(child, 'SIGTERM')
    timer = setTimeout(() => kill(child, 'SIGKILL'), KILL_AFTER_MS)
  }
  const killNow = () => kill(child, 'SIGKILL')
  if (signal.aborted) end()
  else signal.addEventListener('abort', end, { once: true })
  process.once('exit', killNow)
  const release = () => {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
    process.off('exit', killNow)
  }
  return { end, release }
}

function kill({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
