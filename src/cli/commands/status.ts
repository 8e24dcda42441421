/**
 * Runs `tenantry status`: prints the readiness report of the running service. A remote service reports its health by the admin API: its
 * probes may be out of reach.
 */
import type { z } from 'zod'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { FindingsStand } from '../../kernel/doctor/doctor.ts'
import { getHealth, Health } from '../../tenancy/system-operations.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { remoteCaller } from '../remote/caller.ts'
import { serviceUnreachable } from '../remote/request.ts'
import { type RemoteTarget, reachRemedy } from '../remote/target.ts'
import { serviceAddress } from './service-address.ts'

const TIMEOUT_MS = 10_000

type Report = Omit<z.output<typeof Health>, 'version'>

/** After the report, rejects with E_FINDINGS if a check failed, and with E_DEPENDENCY_UNAVAILABLE if the service is not ready. */
export async function status(input: OwnInput): Promise<void> {
  const { options, terminal, signal } = input
  const target = options.url === undefined ? await input.remote() : undefined
  const { url, ...report } = target ? await remoteHealth(target, signal) : await localReadiness(input)
  const checks = Object.entries(report.checks).map(([name, check]) => ({ check: name, ...check }))
  terminal.say(`${url}: ${report.status}, up ${Math.round(report.uptimeSeconds)} s`)
  terminal.table(checks, { url, ...report })
  if (report.status === 'fail')
    throw DependencyUnavailable(`The service at ${url} is not ready. See the failed checks in the report.`)
  if (report.status === 'degraded')
    throw FindingsStand(`The service at ${url} is degraded. See the failed checks in the report.`)
}

async function remoteHealth(target: RemoteTarget, signal: AbortSignal): Promise<Report & { url: string }> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)])
  const url = new URL(target.url).origin
  try {
    const { body } = await remoteCaller(target, limit).call(getHealth, {})
    return { url, ...Health.parse(body) }
  } catch (error) {
    signal.throwIfAborted()
    throw limit.aborted ? serviceUnreachable(url, reachRemedy(target), error) : error
  }
}

async function localReadiness(input: OwnInput): Promise<Report & { url: string }> {
  const { url, probes, remedy } = await serviceAddress(input)
  return { url, ...(await readiness(url, `${probes}/readyz`, remedy, input.signal)) }
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
