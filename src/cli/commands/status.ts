/** Runs `tenantry status`: prints the readiness report of the running service. */
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { FindingsStand } from '../../kernel/doctor/doctor.ts'
import type { CheckResult } from '../../kernel/resilience/health.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { serviceUnreachable } from '../remote/request.ts'
import { serviceAddress } from './service-address.ts'

const TIMEOUT_MS = 10_000

interface Report {
  readonly status: 'ok' | 'degraded' | 'fail'
  readonly uptimeSeconds: number
  readonly checks: Readonly<Record<string, CheckResult>>
}

/** After the report, rejects with E_FINDINGS if a check failed, and with E_DEPENDENCY_UNAVAILABLE if the service is not ready. */
export async function status(input: OwnInput): Promise<void> {
  const { terminal, signal } = input
  const { url, probes, remedy } = await serviceAddress(input)
  const report = await readiness(url, `${probes}/readyz`, remedy, signal)
  const checks = Object.entries(report.checks).map(([name, check]) => ({ check: name, ...check }))
  terminal.say(`${url}: ${report.status}, up ${Math.round(report.uptimeSeconds)} s`)
  terminal.table(checks, { url, ...report })
  if (report.status === 'fail')
    throw DependencyUnavailable(`The service at ${url} is not ready. See the failed checks in the report.`)
  if (report.status === 'degraded')
    throw FindingsStand(`The service at ${url} is degraded. See the failed checks in the report.`)
}

async function readiness(url: string, path: string, remedy: string, signal: AbortSignal): Promise<Report> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)])
  try {
    const response = await fetch(url + path, { signal: limit, redirect: 'manual' })
    const report = (await response.json().catch(() => undefined)) as Report | undefined
    if (report && typeof report.checks === 'object') return report
  } catch (error) {
    signal.throwIfAborted()
    throw serviceUnreachable(url, remedy, error)
  }
  throw DependencyUnavailable(
    `The response of ${url}${path} is not a readiness report. Check the URL, and \`probes\` in the configuration.`,
  )
}
