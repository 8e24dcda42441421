/**
 * Opens a tenancy for one command, and closes it when the command succeeds, fails or is interrupted.
 * - A command without a worker also runs while the backoffice cannot store data, and fails at its first write.
 * - Other processes may run on the same database.
 * - The actor is the user of the operating system.
 */
import { randomUUID } from 'node:crypto'
import { userInfo } from 'node:os'
import type { Tenancy, TenancyConfig } from '../../tenancy/tenancy.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { interruptible } from '../process/stop-signal.ts'

interface Needs extends Pick<TenancyConfig, 'needsSameSettings' | 'keepsTablesOf'> {
  readonly needsWorker?: boolean | undefined
  readonly graceMs?: number
}

/** Time limits after an interruption: for the running step to end by default, and then for the tenancy to stop. */
const GRACE_MS = 1_000
const STOP_INTERRUPTED_MS = 2_000

/**
 * @param needsWorker whether to run jobs during the command
 * @param needsSameSettings whether a difference to a running process prevents the command
 * @param keepsTablesOf part whose tables must exist beside a running process with other settings: no migrations run
 * @param graceMs time for the running step to end after an interruption
 */
export async function withTenancy<T>(
  { loadConfig, signal, context, openTenancy }: Pick<OwnInput, 'loadConfig' | 'signal' | 'context' | 'openTenancy'>,
  { needsWorker = false, needsSameSettings, keepsTablesOf, graceMs = GRACE_MS }: Needs,
  work: (tenancy: Tenancy) => Promise<T>,
): Promise<T> {
  const [{ enterContext }, { jsonLogger }] = await Promise.all([
    import('../../kernel/base/context.ts'),
    import('../terminal/logs.ts'),
  ])
  const config = await loadConfig()
  // By default without info lines, which would mix with the messages of the command.
  const level = context.env.LOG_LEVEL ? config.logLevel : 'warn'
  const logger = jsonLogger(level, context)
  const role = needsWorker ? 'command' : 'api'
  const purpose = { role, allowsReadOnly: !needsWorker, isCommand: true, needsSameSettings, keepsTablesOf } as const
  const opened = await openTenancy(config, { ...purpose, signal, logger })
  try {
    signal.throwIfAborted()
    const requestContext = { requestId: randomUUID(), actor: { type: 'cli' as const, ...operator() }, ip: null }
    return await interruptible(
      enterContext(requestContext, () => work(opened.tenancy)),
      signal,
      graceMs,
    )
  } finally {
    await opened.stop(signal.aborted ? STOP_INTERRUPTED_MS : undefined)
  }
}

function operator(): { id: string; name: string } {
  const name = loginName()
  return { id: name, name }
}

function loginName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}` // in containers the user often has no name
  }
}
