/** Writes structured log lines (pino) with the request id, tenant and trace of the work in progress. Secrets are masked by name. */
import { type Logger, pino } from 'pino'
import { currentContext } from './context.ts'
import { logDestination } from './log-destination.ts'
import { traceIdsOf } from './trace-context.ts'

export type { Logger }

export interface LoggerOptions {
  /** `fatal | error | warn | info | debug | trace | silent` */
  level?: string
  /** Where lines go; default: standard error. */
  write?: (line: string) => void
}

/** Whether pino knows the level. */
export const isLogLevel = (text: string): boolean => text === 'silent' || Object.hasOwn(pino.levels.values, text)

const SECRETS = ['token', 'secret', 'password', 'authorization', 'cookie', 'url', 'connectionString']

const STANDARD_ERROR = 2

/** Lines go to standard error: standard output is for the results of commands. A failing destination drops lines. */
export const createLogger = ({ level = 'info', write }: LoggerOptions = {}): Logger =>
  pino(
    {
      level,
      base: undefined,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: describeError },
      redact: { paths: SECRETS.flatMap((name) => [name, `*.${name}`]), censor: '[hidden]' },
      mixin: () => {
        const { requestId, tenantId, traceparent } = currentContext()
        return {
          ...(requestId ? { requestId } : {}),
          ...(tenantId ? { tenantId } : {}),
          ...(traceparent ? { traceId: traceIdsOf(traceparent).traceId } : {}),
        }
      },
    },
    write ? { write } : logDestination(STANDARD_ERROR),
  )

/** The same logger, except that lines about errors that `isKnown` recognises have the level debug. */
export function withoutKnownErrors(log: Logger, isKnown: (error: unknown) => boolean): Logger {
  const at = (level: 'warn' | 'error') =>
    function (this: Logger, ...line: readonly unknown[]) {
      const [fields] = line
      const error = fields instanceof Error ? fields : (fields as { err?: unknown } | undefined)?.err
      Reflect.apply(log[error !== undefined && isKnown(error) ? 'debug' : level], this, line)
    }
  return Object.assign(Object.create(log), { warn: at('warn'), error: at('error') })
}

/** Chosen members only: errors of drivers carry whole connections, passwords included. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const { name, message, stack, cause } = error
  const { code } = error as { code?: unknown }
  return { type: name, message, ...(code ? { code } : {}), stack, ...(cause ? { cause: describeError(cause) } : {}) }
}
