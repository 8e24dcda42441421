/** What the doctor examines of the logins of tenants' queries: that each server lets them in, as they were made. */
import { type Diagnosis, type Examination, type Finding, notExamined } from '../../kernel/doctor.ts'
import { isFaulty, type LoginRepair } from './login-repair.ts'

const REMEDY =
  'Restore it with tenantry doctor --fix; a start, and a connection that the server refuses, do the same. SQL of a tenant may have ' +
  'changed it: see docs/protection.md.'

export const loginDiagnosis: Diagnosis<LoginRepair> = {
  name: 'logins',
  summary: "Logins of tenants' queries whose password or defaults were changed",
  examine: examineLogins,
  async fix(logins, { subject }) {
    const faults = await logins.restore(subject as string)
    return faults && isFaulty(faults)
      ? 'it is restored'
      : 'it was restored already: together with the password, or by another process'
  },
}

async function* examineLogins(logins: LoginRepair, { log }: Examination): AsyncIterable<Finding> {
  for (const placement of logins.placements) {
    try {
      const faults = await logins.examine(placement)
      if (!faults) continue
      const { login, passwordChanged, settings } = faults
      const finding = { severity: 'error', remedy: REMEDY, fixable: true, subject: placement } as const
      if (passwordChanged) {
        yield { ...finding, code: 'logins.password', message: `${placement}: the password of "${login}" was changed` }
      }
      if (settings.length > 0) {
        const message = `${placement}: "${login}" has other defaults than it was made with: ${settings.join(', ')}`
        yield { ...finding, code: 'logins.settings', message }
      }
    } catch (error) {
      yield notExamined(`The login of tenants' queries on "${placement}"`, error, log)
    }
  }
}
