import { customers } from '../customers.ts'
import { expectThat } from '../expectations.ts'
import { heading, say } from '../print.ts'
import type { Tour } from './chapter.ts'

const SHOWN = /^multitenancy_(tenants_total|tenants_by_status|uptime_seconds)/

export async function operation({ api }: Tour): Promise<void> {
  heading('Operate the service: probes, the API description, metrics')
  const { body: report } = await api.call('GET', '//readyz', {
    expect: '200 ok',
    also: ({ body }) =>
      Object.entries(body.checks)
        .map(([name, check]: any) => `${name} ${check.status}`)
        .join(', '),
  })
  expectThat(Object.keys(report.checks).length > 0, 'readiness lists its checks')
  await api.call('GET', '/openapi.json', {
    expect: '200',
    also: ({ body }) => `OpenAPI ${body.openapi}, ${Object.keys(body.paths).length} paths`,
  })
  const { body: metrics } = await api.call('GET', '//metrics', { expect: '200' })
  const lines = (metrics as string).split('\n').filter((line) => SHOWN.test(line))
  for (const line of lines) say(line)
  expectThat(
    lines.some((line) => line.endsWith(` ${customers.length}`)),
    'the metrics count the tenants',
  )
}
