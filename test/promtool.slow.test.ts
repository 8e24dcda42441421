/** Checks the metrics, the alert rules and the dashboard with Prometheus' own programs. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { openApi } from './contract/api.ts'
import { programPath } from './setup/not-run.ts'

const PROMTOOL = programPath('promtool') ?? ''
const ALERTS = 'docs/prometheus/alerts.yml'
const run = promisify(execFile)

test('promtool reports one metric name only', async () => {
  const api = await openApi(inject('postgresUrl'))
  try {
    await api.call('GET', '/tenants')
    const text = await (await api.http.fetch(new Request('http://localhost/metrics'))).text()
    const child = run(PROMTOOL, ['check', 'metrics'])
    child.child.stdin?.end(text)
    const output = await child.then(
      ({ stdout, stderr }) => `${stdout}${stderr}`,
      ({ stdout, stderr }) => `${stdout}${stderr}`,
    )
    // The specification prescribes the name of this gauge.
    expect(output.trim()).toBe('multitenancy_tenants_total non-counter metrics should not have "_total" suffix')
  } finally {
    await api.end()
  }
})

test('the alert rules are valid', async () => {
  expect((await run(PROMTOOL, ['check', 'rules', ALERTS])).stdout).toContain('SUCCESS')
})

test('alerts fire if no worker runs and if jobs fail, and not before', async () => {
  const jobs = (state: string, count: number, queue = 'tenantry.InstallTenant') =>
    ['a', 'b'].map((instance) => ({
      series: `multitenancy_queue_jobs{queue="${queue}",state="${state}",tenant_id="",instance="${instance}"}`,
      values: `${count}x60`,
    }))
  const cases = [
    { input_series: jobs('waiting', 500), firing: { TenantryJobsWait: true, TenantryJobsFailed: false } },
    {
      input_series: [...jobs('waiting', 500), ...jobs('active', 2)],
      firing: { TenantryJobsWait: false, TenantryJobsFailed: false },
    },
    { input_series: jobs('waiting', 60), firing: { TenantryJobsWait: false, TenantryJobsFailed: false } },
    { input_series: jobs('failed', 1), firing: { TenantryJobsWait: false, TenantryJobsFailed: true } },
    { input_series: jobs('failed', 1, 'webhooks'), firing: { TenantryJobsWait: false, TenantryJobsFailed: false } },
  ]
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-promtool-'))
  try {
    for (const { input_series, firing } of cases) {
      for (const [alertname, isFiring] of Object.entries(firing)) {
        const file = join(directory, 'test.yml')
        const test = {
          interval: '1m',
          input_series,
          alert_rule_test: [{ alertname, eval_time: '30m', exp_alerts: [] }],
        }
        await writeFile(file, JSON.stringify({ rule_files: [resolve(ALERTS)], tests: [test] }))
        const silent = await run(PROMTOOL, ['test', 'rules', file]).then(
          () => true,
          () => false,
        )
        expect(silent, `${alertname} of ${JSON.stringify(input_series[0])}`).toBe(!isFiring)
      }
    }
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('the queries of the dashboard are valid', async () => {
  const { panels } = JSON.parse(await readFile('docs/prometheus/dashboard.json', 'utf8'))
  const rules = panels.flatMap(({ id, targets }: any) =>
    targets.map(({ expr }: any) => `      - { record: "panel:${id}", expr: ${JSON.stringify(expr)} }`),
  )
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-promtool-'))
  try {
    const file = join(directory, 'rules.yml')
    await writeFile(file, `groups:\n  - name: dashboard\n    rules:\n${rules.join('\n')}\n`)
    expect((await run(PROMTOOL, ['check', 'rules', file])).stdout).toContain(`${panels.length} rules found`)
  } finally {
    await rm(directory, { recursive: true })
  }
})
