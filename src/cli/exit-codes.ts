/** Converts the error of a command to an exit code and a message on standard error. */
import colors from 'picocolors'
import { DependencyUnavailable, defineError, TenancyError } from '../kernel/base/errors.ts'
import { textOf, unreachable } from '../kernel/database/start-failures.ts'
import { writeFailure } from '../kernel/database/write-failures.ts'
import { AlreadyRunning } from '../service/backoffice-server.ts'
import type { ProcessContext } from './process/context.ts'
import { Interrupted, OutputClosed } from './process/stop-signal.ts'
import { usesColor } from './terminal/color.ts'
import { visible } from './terminal/table.ts'

/** Meanings for the reference. */
export const EXIT_CODES: Readonly<Record<number, string>> = {
  0: 'success',
  1: 'failure',
  2: 'invalid arguments or configuration',
  3: 'not found',
  4: 'unauthorized',
  5: 'conflict',
  6: 'a check found problems',
  7: 'a dependency is unavailable',
  130: 'interrupted',
}

const OK = 0
const FAILED = 1

const BY_CODE: Readonly<Record<string, number>> = {
  /** Thrown by a checking command after it has printed its findings. */
  E_FINDINGS: 6,
  E_INTERRUPTED: 130,
  E_SETTINGS_CONFLICT: 2,
  /** Rate limit of wrong tokens: the same exit code as for one wrong token (401). */
  E_TOO_MANY_ATTEMPTS: 4,
}

const BY_STATUS: Readonly<Record<number, number>> = {
  400: 2,
  401: 4,
  403: 4,
  404: 3,
  405: 2,
  409: 5,
  412: 5,
  413: 2,
  415: 2,
  422: 2,
  502: 7,
  503: 7,
  504: 7,
}

export const Running = defineError('E_ALREADY_RUNNING', 409, 'Already running')
export const Stopped = defineError('E_INTERRUPTED', 499, 'Interrupted')
export const Failed = defineError('E_INTERNAL', 500, 'Failed')

/** Prints the error, with `json` as a problem (RFC 9457), and returns the exit code. */
export function reportFailure(error: unknown, { json }: { json: boolean }, context: ProcessContext): number {
  if (error instanceof OutputClosed) return OK
  const failure = asTenancyError(error)
  const { env, stderr } = context
  stderr.write(json ? `${JSON.stringify(problemOf(failure), null, 2)}\n` : errorMessageOf(failure, context))
  if (showsStacks(env) && error instanceof Error) stderr.write(`${error.stack}\n`)
  return exitCodeOf(failure)
}

export const exitCodeOf = ({ code, status }: TenancyError): number => BY_CODE[code] ?? BY_STATUS[status] ?? FAILED

/** Keeps the message: unlike an HTTP caller, a user of the terminal can read the configuration and the log. */
export function asTenancyError(error: unknown): TenancyError {
  if (error instanceof TenancyError) return error
  if (error instanceof Interrupted) return Stopped('interrupted')
  if (error instanceof AlreadyRunning) return Running(error.message)
  const unavailable = unreachable(error)
  if (unavailable) return unavailable
  const reason = writeFailure(error)
  if (reason !== undefined) {
    return DependencyUnavailable(
      `The database cannot store data: ${reason} (${textOf(error)}). Check the disk of its server and default_transaction_read_only.`,
    )
  }
  return Failed(textOf(error))
}

function errorMessageOf({ message, code }: TenancyError, context: ProcessContext): string {
  if (code === Stopped.code) return `${message}\n`
  const { red, dim } = colors.createColors(usesColor(context.stderr, context))
  const text = message.split('\n').map(visible).join('\n')
  return `${red('error:')} ${text}\n${code === Failed.code ? '' : dim(`code:  ${code}\n`)}`
}

const problemOf = ({ code, title, status, message, extras }: TenancyError) => ({
  type: `urn:tenantry:problem:${code}`,
  title,
  status,
  detail: message,
  code,
  requestId: null,
  ...extras,
})

const showsStacks = ({ LOG_LEVEL = '' }: NodeJS.ProcessEnv): boolean => ['debug', 'trace'].includes(LOG_LEVEL)
