/** A flag of a tenant: switch, rollout, affected users, and its evaluation as the host calls it. */
import { useState } from 'react'
import type { Result } from '../../../console/api/contract.ts'
import { menuEntriesOf, ObjectButtons } from '../../../console/components/actions.tsx'
import { Icon } from '../../../console/components/base/icon.tsx'
import { Card, Facts, Section } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { Time } from '../../../console/components/base/time.tsx'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { Skeleton } from '../../../console/components/lists/table.tsx'
import { MenuTrigger } from '../../../console/components/menu.tsx'
import { useAction, useOperation } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { useCurrent } from '../../../console/routing/current.ts'
import { linkTo, tenantHref } from '../../../console/routing/links.ts'
import { useParams } from '../../../console/routing/router.tsx'
import { Audience } from './audience.tsx'
import { absentFlag, type Flag, isAbsent } from './model.ts'
import { Rollout } from './rollout.tsx'
import { Switch } from './switch.tsx'
import { text } from './text.ts'

export default function FlagPage() {
  const { id = '', key = '' } = useParams()
  const { data, error, refetch } = useOperation('featureFlags.get', { params: { id, key } })
  const flag = data?.key === key && data.tenantId === id ? data : undefined
  useCurrent('flag', flag)
  if (error?.code === 'E_FLAG_NOT_FOUND' && isPermitted('featureFlags.edit')) {
    return <FlagView key={key} flag={absentFlag(id, key)} />
  }
  if (error) return <ProblemView error={error} onRetry={error.status === 404 ? undefined : refetch} />
  return flag ? <FlagView key={flag.id} flag={flag} /> : <Skeleton />
}

function FlagView({ flag }: { flag: Flag }) {
  const { tenantId: id, key } = flag
  const [draft, setDraft] = useState<number | null>()
  const isNew = isAbsent(flag)
  const entries = isNew ? [] : menuEntriesOf('flag', flag)
  const all = isPermitted('featureFlags.listTenants') && linkTo('featureFlags.listTenants', { key })
  return (
    <>
      <div className="flag-head">
        <div>
          <nav aria-label={text.flag}>
            <a href={tenantHref(id, 'flags')}>{text.flags}</a>
          </nav>
          <h2>{key}</h2>
        </div>
        <div className="section-actions">
          {!isNew && <ObjectButtons kind="flag" object={flag} name={key} />}
          {!isNew && <Switch flag={flag} />}
          {entries.length > 0 && (
            <MenuTrigger label={text.flag} entries={entries}>
              {text.flag}
              <Icon name="down" size={12} />
            </MenuTrigger>
          )}
        </div>
      </div>
      {isNew && <p className="notice">{text.absent}</p>}
      <div className="flag-parts">
        <Card title={text.rollout}>
          <Rollout flag={flag} draft={draft} onDraft={setDraft} />
        </Card>
        <Card title={text.flag}>
          <Facts
            facts={{
              [text.columns.state]: isNew ? text.off : text.stateOf(flag),
              ...(isNew ? {} : settingsOf(flag)),
            }}
          />
          {all && (
            <p className="card-more">
              <a href={all}>{text.allTenants}</a>
            </p>
          )}
        </Card>
      </div>
      {isPermitted('featureFlags.preview') && (
        <Section title={text.affected}>
          <Audience flag={flag} draft={draft} />
        </Section>
      )}
      {isPermitted('featureFlags.evaluate') && (
        <Section title={text.saved}>
          <Evaluation id={id} flagKey={key} />
        </Section>
      )}
    </>
  )
}

const settingsOf = ({ rolloutPercent, bucketKey, updatedAt }: Flag) => ({
  [text.columns.rollout]: text.percent(rolloutPercent),
  [text.columns.bucketKey]: bucketKey ? <code>{bucketKey}</code> : text.callerKey,
  [text.columns.updated]: <Time at={updatedAt} />,
})

function Evaluation({ id, flagKey: key }: { id: string; flagKey: string }) {
  const [result, setResult] = useState<Result<'featureFlags.evaluate'>>()
  const evaluate = useAction('featureFlags.evaluate', { showsProblem: true, onDone: setResult })
  return (
    <div className="flag-parts">
      <Form
        operation="featureFlags.evaluate"
        submit={text.evaluate}
        isRunning={evaluate.isRunning}
        problem={evaluate.problem}
        onSubmit={(body) => void evaluate.run({ params: { id, key }, body })}
      >
        <Field name="bucketKey" isExtra label={text.callerBucketKey} />
        <Field name="attributes" label={text.attributes} hint={text.attributesHint} />
      </Form>
      <div role="status">
        {result && (
          <Card title={text.result.state}>
            <Facts
              facts={{
                [text.result.state]: (
                  <Status state={result.enabled ? 'on' : 'off'} tone={result.enabled ? 'good' : 'neutral'} />
                ),
                [text.reason]: text.reasons[result.reason],
                [text.decidedValue]: result.value && <code>{result.value}</code>,
                [text.result.bucket]: result.bucket === null ? undefined : text.bucket(result.bucket),
              }}
            />
          </Card>
        )}
      </div>
    </div>
  )
}
