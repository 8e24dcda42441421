/**
 * Runs `tenantry serve`: the service, until a stop signal, an uncaught exception or the end of the embedded PostgreSQL.
 * - All end running work. A stop signal is success; the others are failures, because the state is unknown.
 * - Only after a stop signal the service drains: the port stays open until load balancers have seen that it is not ready.
 */
import { flushCompileCache } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { ConfigurationError, type ServiceConfig } from '../../service/config.ts'
import type { Service } from '../../service/main.ts'
import { EXAMPLE_PLANS } from '../../service/settings/plans.ts'
import { VERSION } from '../../tenancy/version.ts'
import type { OwnInput } from '../parser/own-input.ts'
import type { ProcessContext } from '../process/context.ts'
import { jsonLogger, readableLogger } from '../terminal/logs.ts'
import { type Ready, readyRecord, readyText } from './startup-banner.ts'

export async function serve(
  { terminal, signal, loadConfig, context, options }: OwnInput,
  { hasReadableLogs = false }: { hasReadableLogs?: boolean } = {},
): Promise<void> {
  const { demo: hasDemo = false } = options
  const given = await loadConfig(true)
  const config = hasDemo ? await configForDemo(given) : given
  const { startService } = await import('../../service/main.ts')
  const service = await startService(config, {
    signal,
    logger: config.logger ?? (hasReadableLogs ? readableLogger : jsonLogger)(config.logLevel, context),
  })
  const uncaught = uncaughtError(service, context)
  keepRunningWithoutOutput(service, context)
  try {
    if (hasDemo) await Promise.race([service.createDemo(), stopRequested(signal), uncaught, service.failed])
    if (context.env.NODE_ENV === 'production') {
      service.tenancy.kernel.log.info(`Tenantry ${VERSION} is ready at ${service.url}`)
    } else {
      const ready = await readiness(config, service, context.env)
      terminal.print(readyText(ready), readyRecord(ready))
    }
    // Flushed now: a service is often killed without time for it.
    flushCompileCache()
    collectGarbage()
    await Promise.race([stopRequested(signal), uncaught, service.failed])
    await Promise.race([service.drain(), uncaught, service.failed])
  } finally {
    await service.stop()
  }
}

/** Standard output has no result of the service: its failure, such as a full disk, is logged and does not end the service. */
function keepRunningWithoutOutput({ tenancy }: Service, { stdout }: ProcessContext): void {
  stdout.removeAllListeners('error') // the stop signal would abort
  stdout.on('error', (error) => tenancy.kernel.log.warn({ err: error }, 'standard output cannot be written'))
}

/**
 * Returns the memory of the start, 60 MiB, to the system. V8 would keep it for minutes, and after a plain `gc()` often, too: it shrinks the
 * young generation only for a process that allocates little, or on a collection of the last resort.
 */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')({ type: 'major', flavor: 'last-resort' })
  setFlagsFromString('--no-expose-gc')
}

/**
 * Without a line for each request: those of the demo would hide the link of the console.
 *
 * @throws ConfigurationError for a process that cannot have the demo
 */
async function configForDemo(config: ServiceConfig): Promise<ServiceConfig> {
  if (config.isProduction) throw new ConfigurationError(['--demo: for development only, rejected in production'])
  if (config.role !== 'all')
    throw new ConfigurationError([`--demo: needs the role all, and the role is ${config.role}`])
  const { withSampleLimits } = await import('../../service/demo/demo.ts')
  const { plans = EXAMPLE_PLANS } = config
  return { ...config, accessLog: false, plans: { ...plans, definitions: withSampleLimits(plans.definitions) } }
}

async function readiness(
  config: ServiceConfig,
  { url, http, adminTokens }: Service,
  env: NodeJS.ProcessEnv,
): Promise<Ready> {
  return {
    config,
    env,
    url,
    signInLink: config.role === 'worker' ? undefined : await http.signInLink().catch(orWithoutCode(config)),
    madeToken: config.adminTokens.length === 0 ? adminTokens[0]?.token : undefined,
  }
}

/** Sign-in codes are in the store. While it is unavailable, the link has no code and the console requires the token. */
const orWithoutCode = (config: ServiceConfig) => (error: unknown) => {
  if (!DependencyUnavailable.matches(error)) throw error
  return `${config.prefix}/console`
}

/** Rejects with the first uncaught exception. Logs each, and unhandled rejections, also while the process drains. */
function uncaughtError({ tenancy }: Service, context: ProcessContext): Promise<never> {
  const { log } = tenancy.kernel
  const { promise, reject } = Promise.withResolvers<never>()
  promise.catch(() => undefined) // serve waits for it until the stop; a later exception is only logged
  context.on('unhandledRejection', (error) => log.error({ err: error }, 'unhandled rejection'))
  context.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception; the service stops')
    reject(error)
  })
  return promise
}

function stopRequested(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
