/**
 * Runs `tenantry doctor`: reports problems with remedies, and fixes them with `--fix` if that is safe. On a remote service it reads the
 * report of the service.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { invalid, TenancyError } from '../../kernel/base/errors.ts'
import { type DoctorReport, FindingsStand, type FixReport, type ReportedFinding } from '../../kernel/doctor/doctor.ts'
import { Doctor, getDoctor } from '../../tenancy/system-operations.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { remoteCaller } from '../remote/caller.ts'
import { databaseOnly, type RemoteTarget } from '../remote/target.ts'
import { withTenancy } from './with-tenancy.ts'

/** Options that need the database. */
const LOCAL_OPTIONS = [
  ['list', '--list'],
  ['check', '--check'],
  ['fix', '--fix'],
  ['prove', '--prove'],
  ['showSql', '--show-sql'],
] as const

const NOT_WITH_LIST = [...LOCAL_OPTIONS.filter(([name]) => name !== 'list'), ['watch', '--watch']] as const

const MAX_WATCH_SECONDS = 86_400

/** Rejects with E_FINDINGS, after the report, if a finding is an error or a warning. */
export async function doctor(input: OwnInput): Promise<void> {
  const { options, terminal } = input
  if (options.dryRun && !options.fix) throw invalid([{ path: 'dry-run', message: 'requires --fix' }])
  if (options.watch !== undefined && options.fix) throw invalid([{ path: 'watch', message: 'excludes --fix' }])
  if (options.watch > MAX_WATCH_SECONDS)
    throw invalid([{ path: 'watch', message: `must be at most ${MAX_WATCH_SECONDS} seconds` }])
  const [, unused] = options.list ? (NOT_WITH_LIST.find(([name]) => options[name]) ?? []) : []
  if (unused) throw invalid([{ path: 'list', message: `excludes ${unused}` }])
  const target = await input.remote()
  if (target) return reported(input, () => examineRemotely(target, input))
  const needsSameSettings = options.fix === true && !options.dryRun && !options.allowDifferentSettings
  await withTenancy(input, { needsSameSettings }, async (tenancy) => {
    const { diagnoses } = tenancy.doctor
    if (options.list) return terminal.table(diagnoses, diagnoses)
    const unknown = options.check?.find((name: string) => !diagnoses.some((one) => one.name === name))
    if (unknown) throw invalid([{ path: 'check', message: `Check "${unknown}" not found. --list shows all checks.` }])
    await reported(input, () => (options.fix ? fix : examine)(tenancy, input))
  })
}

/**
 * Prints the report, and with `--watch` each later report or outage that differs from the last one, until the command is interrupted. An
 * outage is no reason to end a watch, except before its first report.
 */
async function reported(input: OwnInput, read: () => Promise<FixReport>): Promise<void> {
  const { options, terminal, signal } = input
  for (let last = ''; ; ) {
    const report = await (last === '' ? read() : read().catch(outageOf))
    const isOutage = report instanceof TenancyError
    const text = isOutage ? report.message : JSON.stringify(report)
    if (text !== last && isOutage) terminal.say(text)
    if (text !== last && !isOutage) print(report, input)
    last = text
    if (options.watch === undefined && !isOutage) {
      if (report.status !== 'ok') throw FindingsStand(counted(report))
      return
    }
    await sleep(options.watch * 1_000, undefined, { signal }).catch(() => undefined)
    signal.throwIfAborted()
  }
}

/** @throws errors that another attempt would have again */
function outageOf(error: unknown): TenancyError {
  if (error instanceof TenancyError && error.status >= 500) return error
  throw error
}

function print(report: FixReport, { options, terminal }: OwnInput): void {
  const rows = [...report.fixes.map(fixRow), ...report.checks.map((finding) => row(finding, options.dryRun))]
  const { status, checks, fixes } = report
  const value = options.fix ? { status, checks, fixes } : { status, checks }
  if (rows.length === 0) terminal.print('no findings\n', value)
  else terminal.table(rows, value)
}

/** The operation has no options. */
async function examineRemotely(target: RemoteTarget, { options, terminal, signal }: OwnInput): Promise<FixReport> {
  const given = LOCAL_OPTIONS.find(([name]) => options[name])
  if (given) throw databaseOnly(`doctor ${given[1]}`, target)
  terminal.progress('examining')
  const { body } = await remoteCaller(target, signal).call(getDoctor, {})
  return { ...Doctor.parse(body), fixes: [] }
}

async function examine({ doctor }: Tenancy, { options, terminal, signal }: OwnInput): Promise<FixReport> {
  terminal.progress(options.prove ? 'proving the isolation of tenants' : 'examining')
  return { ...(await doctor.examine({ ...examineOptions(options), signal })), fixes: [] }
}

async function fix({ doctor }: Tenancy, { options, terminal, signal }: OwnInput): Promise<FixReport> {
  terminal.progress('examining')
  let [found, done] = [0, 0]
  const report = await doctor.fix({
    ...examineOptions(options),
    signal,
    approve: async (fixable) => {
      found = fixable.length
      if (!options.dryRun) return terminal.confirm(`Fix ${kinds(fixable)}?`)
      terminal.say(`${kinds(fixable)} would be fixed`)
      return false
    },
    onFix: ({ message }) => terminal.progress(`${++done} of ${found}: ${message}`),
  })
  if (found === 0) terminal.say('no fixable findings')
  return report
}

const examineOptions = ({ prove, showSql, check }: OwnInput['options']) => ({
  only: check as readonly string[] | undefined,
  prove: prove === true,
  showsSql: showSql === true,
})

/** Number of findings, in total and by code: `3 findings (storage.closed 2, storage.open 1)`. */
function kinds(findings: readonly ReportedFinding[]): string {
  const kinds = [...Map.groupBy(findings, ({ code }) => code)].map(([code, { length }]) => `${code} ${length}`)
  return `${findings.length === 1 ? '1 finding' : `${findings.length} findings`} (${kinds.join(', ')})`
}

const fixRow = ({ isDone, code, message, outcome }: FixReport['fixes'][number]) => ({
  severity: isDone ? 'fixed' : 'not fixed',
  code,
  message,
  remedy: outcome,
})

const row = ({ severity, code, message, remedy, fixable }: ReportedFinding, isDryRun: boolean) => ({
  severity: isDryRun && fixable ? 'would be fixed' : severity,
  code,
  message,
  remedy,
})

const counted = ({ counts: { error, warn } }: DoctorReport): string =>
  `The doctor found problems (errors: ${error}, warnings: ${warn}). Apply the remedies in its report.`
