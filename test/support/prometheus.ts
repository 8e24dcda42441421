/**
 * Starts a Prometheus that scrapes one service and evaluates the shipped alert rules with short windows: an alert fires after two seconds
 * instead of a minute and after ten seconds instead of longer times, and rates cover fifteen seconds. Alerts on the speed of the machine
 * keep their times, and are not reported.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { freePort } from './free-port.ts'

const ALERTS = 'docs/prometheus/alerts.yml'
const OF_THE_MACHINE = ['TenantryEventLoopLags', 'TenantryHealthCheckSlow']
const START_MS = 20_000

export interface Prometheus {
  /** Names of the alerts that are pending or firing. */
  active(): Promise<string[]>
  /** Names of the alerts that are firing. */
  firing(): Promise<string[]>
  /** Names of all alerts that have fired since the start. */
  fired(): Promise<string[]>
  /** Resolves after a successful scrape. */
  scraped(): Promise<void>
  stop(): Promise<void>
}

/** @param target URL of the service */
export async function startPrometheus(program: string, target: string): Promise<Prometheus> {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-prometheus-'))
  const port = await freePort()
  await writeFile(join(directory, 'alerts.yml'), shortened(await readFile(ALERTS, 'utf8')))
  await writeFile(join(directory, 'prometheus.yml'), JSON.stringify(configFor(new URL(target).host)))
  const child = spawn(
    program,
    [
      `--config.file=${join(directory, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(directory, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  )
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)
    if (!response.ok) throw new Error(`Prometheus responded with ${response.status}: ${await response.text()}`)
    const { data } = (await response.json()) as { data: any }
    return data
  }
  const query = async (expr: string): Promise<any[]> => (await get(`query?query=${encodeURIComponent(expr)}`)).result
  const namesOf = (alerts: readonly any[]) =>
    [...new Set(alerts.map(({ labels }) => labels.alertname as string))]
      .filter((name) => !OF_THE_MACHINE.includes(name))
      .toSorted()
  const alerts = async (): Promise<any[]> => (await get('alerts')).alerts
  const prometheus: Prometheus = {
    active: async () => namesOf(await alerts()),
    firing: async () => namesOf((await alerts()).filter(({ state }) => state === 'firing')),
    fired: async () =>
      namesOf(
        (await query('group by (alertname) (last_over_time(ALERTS{alertstate="firing"}[1h]))')).map(({ metric }) => ({
          labels: metric,
        })),
      ),
    scraped: () =>
      eventually(async () => {
        const [up] = await query('up')
        if (up?.value[1] !== '1') throw new Error('The service was not scraped')
      }, START_MS),
    stop: () => end(child, directory),
  }
  try {
    await prometheus.scraped()
    // The rules were evaluated before the first scrape, too.
    await eventually(async () => {
      if ((await prometheus.active()).includes('TenantryAbsent')) throw new Error('The rules were not evaluated')
    }, START_MS)
    return prometheus
  } catch (error) {
    await prometheus.stop()
    throw error
  }
}

async function end(child: ChildProcess, directory: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }
  await rm(directory, { recursive: true, force: true })
}

const configFor = (target: string): object => ({
  global: { scrape_interval: '3s', scrape_timeout: '3s', evaluation_interval: '1s' },
  rule_files: ['alerts.yml'],
  scrape_configs: [{ job_name: 'tenantry', static_configs: [{ targets: [target] }] }],
})

/** The rules with short times. */
function shortened(rules: string): string {
  return rules
    .split('\n      - ')
    .map((rule) =>
      OF_THE_MACHINE.some((name) => rule.startsWith(`alert: ${name}\n`))
        ? rule
        : rule
            .replace(/\bfor: (\d+[mh])/, (_, time) => `for: ${time === '1m' ? 2 : 10}s`)
            .replaceAll(/\[\d+[mh]\]/g, '[15s]'),
    )
    .join('\n      - ')
}
