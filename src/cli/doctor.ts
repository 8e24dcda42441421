/** `tenantry doctor`: what is wrong with the installation, and what to do about it. */
import { type DoctorReport, FindingsStand } from '../kernel/doctor.ts'
import type { OwnInput } from './commands.ts'
import { withTenancy } from './with-tenancy.ts'

/** Fails with E_FINDINGS, after its report, unless all there is to say is for information. */
export async function doctor(input: OwnInput): Promise<void> {
  const { options, terminal, signal } = input
  const report = await withTenancy(input, {}, (tenancy) => {
    terminal.progress(options.prove ? 'proving the isolation of tenants' : 'examining')
    return tenancy.doctor.examine({ prove: options.prove === true, signal })
  })
  if (report.checks.length === 0) terminal.print('nothing found\n', report)
  else terminal.table(report.checks.map(row), report)
  if (report.status !== 'ok') throw FindingsStand(counted(report))
}

const row = ({ severity, code, message, remedy }: DoctorReport['checks'][number]) => ({
  severity,
  code,
  message,
  remedy,
})

function counted({ checks }: DoctorReport): string {
  const count = (severity: string) => checks.filter((finding) => finding.severity === severity).length
  return `errors: ${count('error')}, warnings: ${count('warn')}`
}
