/**
 * `tenantry serve`: the service, until somebody ends it. A request to end drains what is running and is success; a fault
 * that nothing caught leaves unknown state behind, so it drains too, and is failure.
 */
import { flushCompileCache } from 'node:module'
import { DependencyUnavailable } from '../kernel/errors.ts'
import type { ServiceConfig } from '../service/config.ts'
import type { Service } from '../service/main.ts'
import { VERSION } from '../version.ts'
import type { OwnInput } from './commands.ts'
import { readableLogger } from './readable-logs.ts'
import { type Ready, readyRecord, readyText } from './ready.ts'

export async function serve(
  { terminal, signal, loadConfig }: OwnInput,
  { hasReadableLogs = false }: { hasReadableLogs?: boolean } = {},
): Promise<void> {
  const config = await loadConfig()
  const { startService } = await import('../service/main.ts')
  const service = await startService(config, {
    signal,
    logger: hasReadableLogs ? readableLogger(config.logLevel) : undefined,
  })
  try {
    if (process.env.NODE_ENV === 'production') {
      service.tenancy.kernel.log.info(`Tenantry ${VERSION} is ready at ${service.url}`)
    } else {
      const ready = await readiness(config, service)
      terminal.print(readyText(ready), readyRecord(ready))
    }
    // Kept now: a service is often ended in a way that leaves no time for it.
    flushCompileCache()
    await ended(service, signal)
  } finally {
    await service.stop()
  }
}

async function readiness(config: ServiceConfig, { url, http, adminTokens }: Service): Promise<Ready> {
  return {
    config,
    url,
    signInLink: config.role === 'worker' ? undefined : await http.signInLink().catch(orWithoutCode(config)),
    madeToken: config.adminTokens.length === 0 ? adminTokens[0]?.token : undefined,
  }
}

/** A code is kept in the store; while that is away, the page asks for the token. */
const orWithoutCode = (config: ServiceConfig) => (error: unknown) => {
  if (!DependencyUnavailable.matches(error)) throw error
  return `${config.prefix}/sign-in`
}

/** Resolves when somebody ends the service, rejects with the fault it cannot go on with. */
function ended({ tenancy }: Service, signal: AbortSignal): Promise<void> {
  const { log } = tenancy.kernel
  return new Promise((resolve, reject) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
    process.on('unhandledRejection', (error) => log.error({ err: error }, 'a failure that nothing handles'))
    process.on('uncaughtException', (error) => {
      log.fatal({ err: error }, 'a fault that nothing caught; the service stops')
      reject(error)
    })
  })
}
