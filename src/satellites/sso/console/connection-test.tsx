/** Test of the connection to the identity provider, with the result of each check. */

import { useState } from 'react'
import type { Result } from '../../../console/api/contract.ts'
import { Button } from '../../../console/components/base/button.tsx'
import { Section } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { useAction } from '../../../console/data/queries.ts'
import { text } from './text.ts'

export function ConnectionTest({ id }: { id: string }) {
  const [report, setReport] = useState<Result<'sso.test'>>()
  const test = useAction('sso.test', { onDone: setReport, showsProblem: true })
  return (
    <Section
      title={text.testTitle}
      actions={
        <Button isRunning={test.isRunning} onClick={() => test.run({ params: { id }, body: {} })}>
          {text.test}
        </Button>
      }
    >
      <p className="faint">{text.testHint}</p>
      {test.problem && <ProblemView error={test.problem} isCompact />}
      <div role="status">
        {report && (
          <p className="notice" data-tone={report.ok ? 'good' : 'bad'}>
            <strong>{report.ok ? text.passed : text.problems}</strong>
          </p>
        )}
      </div>
      {report && <Checks checks={report.checks} />}
    </Section>
  )
}

const Checks = ({ checks }: { checks: Result<'sso.test'>['checks'] }) => (
  <table className="simple">
    <thead>
      <tr>
        <th scope="col">{text.columns.check}</th>
        <th scope="col">{text.columns.state}</th>
        <th scope="col">{text.columns.message}</th>
      </tr>
    </thead>
    <tbody>
      {checks.map(({ name, ok, message }) => (
        <tr key={name}>
          <th scope="row">{text.checks[name]}</th>
          <td>
            <Status state={ok ? 'pass' : 'fail'}>{ok ? text.pass : text.fail}</Status>
          </td>
          <td>{message}</td>
        </tr>
      ))}
    </tbody>
  </table>
)
