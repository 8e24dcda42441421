/**
 * Writes log lines to standard error as JSON, or as text with the error's stack below:
 * `08:31:43.120 warn  a job failed  job=InstallTenant`.
 */
import colors from 'picocolors'
import { logDestination } from '../../kernel/base/log-destination.ts'
import { createLogger, type Logger } from '../../kernel/base/logger.ts'
import type { ProcessContext } from '../process/context.ts'
import { usesColor } from './color.ts'
import { cellText } from './table.ts'

const LEVELS: Readonly<Record<number, string>> = {
  10: 'trace',
  20: 'debug',
  30: 'info',
  40: 'warn',
  50: 'error',
  60: 'fatal',
}

export const jsonLogger = (level: string, context: ProcessContext): Logger => loggerTo(context, level, (line) => line)

export const readableLogger = (level: string, context: ProcessContext): Logger =>
  loggerTo(context, level, (line) => readable(line, usesColor(context.stderr, context)))

/** A real standard error is written by its descriptor: after an error its stream would drop all lines silently. */
function loggerTo({ stderr }: ProcessContext, level: string, format: (line: string) => string): Logger {
  const { fd } = stderr
  const destination = fd === undefined ? undefined : logDestination(fd, format)
  return createLogger({ level, write: destination?.write ?? ((line) => stderr.write(format(line))) })
}

/** @param line of pino: JSON with `level`, `time` and `msg`. */
export function readable(line: string, hasColor: boolean): string {
  const { dim, red, yellow } = colors.createColors(hasColor)
  const { level, time, msg = '', err, ...fields } = JSON.parse(line)
  const paint = level >= 50 ? red : level >= 40 ? yellow : dim
  const rest = Object.entries(fields).map(([name, value]) => dim(`  ${name}=${cellText(value)}`))
  const stack = err?.stack ?? err?.message
  const below = stack ? `${String(stack).replaceAll(/^/gm, '    ')}\n` : ''
  return `${dim(String(time).slice(11, 23))} ${paint((LEVELS[level] ?? String(level)).padEnd(5))} ${cellText(msg)}${rest.join('')}\n${below}`
}
