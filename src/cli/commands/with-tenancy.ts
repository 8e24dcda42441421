/**
 * A tenancy for the length of one command: opened beside whatever is running on the same database, and closed however the
 * command ends. What the command does is done by whoever is at the terminal.
 */
import { randomUUID } from 'node:crypto'
import { userInfo } from 'node:os'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { interruptible } from '../process/stop-signal.ts'

/** For the step in progress to end by itself, and then for connections to close; what takes longer is cut off. */
const GRACE_MS = 1_000
const STOP_INTERRUPTED_MS = 2_000

/** @param needsWorker whether jobs must be worked on meanwhile. */
export async function withTenancy<T>(
  { loadConfig, signal, context, openTenancy }: Pick<OwnInput, 'loadConfig' | 'signal' | 'context' | 'openTenancy'>,
  { needsWorker = false }: { needsWorker?: boolean | undefined },
  work: (tenancy: Tenancy) => Promise<T>,
): Promise<T> {
  const [{ enterContext }, { jsonLogger }] = await Promise.all([
    import('../../kernel/base/context.ts'),
    import('../terminal/logs.ts'),
  ])
  const config = await loadConfig()
  // A command speaks for itself; the service's usual lines would only stand between its words.
  const level = context.env.LOG_LEVEL ? config.logLevel : 'warn'
  const logger = jsonLogger(level, context)
  const role = needsWorker ? 'command' : 'api'
  const opened = await openTenancy(config, { role, signal, logger })
  try {
    signal.throwIfAborted()
    const requestContext = { requestId: randomUUID(), actor: { type: 'cli' as const, ...operator() }, ip: null }
    return await interruptible(
      enterContext(requestContext, () => work(opened.tenancy)),
      signal,
      GRACE_MS,
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
    return `uid ${process.getuid?.()}` // in containers often without a name
  }
}
