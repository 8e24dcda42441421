/** A generic screen: a list or the values of one read, and the forms of other operations in a panel. */
import type { ComponentType } from 'react'
import type { OperationName } from '../api/contract.ts'
import { Button, LinkButton } from '../components/base/button.tsx'
import { PageHeader, Section } from '../components/base/page.tsx'
import { ProblemView } from '../components/base/problem.tsx'
import { Skeleton } from '../components/lists/table.tsx'
import { useOperation } from '../data/queries.ts'
import { linkTo } from '../routing/links.ts'
import { useOpen } from '../routing/open.ts'
import { useParams } from '../routing/router.tsx'
import { Filters, useRead } from './filters.tsx'
import { RowList } from './list.tsx'
import { type GenericPage, titleOf } from './pages.ts'
import { OperationPanel } from './panel.tsx'
import { Value } from './value.tsx'

export const genericView =
  (page: GenericPage): ComponentType =>
  () => <Page page={page} />

/** `?open=notes.archive/n-1`: a form, and the value of the parameter that its row supplies. */
const openedOf = (id = ''): readonly [name: string, value: string] => {
  const [name = '', ...value] = id.split('/')
  return [name, value.join('/')]
}

function Page({ page }: { page: GenericPage }) {
  const { satellite, read, forms, links, rowForms, isOfTenant, parentList } = page
  const params = useParams()
  const panel = useOpen()
  const [name, value] = openedOf(panel.id)
  const ofRow = value === '' ? undefined : rowForms.find(({ operation }) => operation.name === name)
  const operation = ofRow?.operation ?? forms.find((one) => one.name === name)
  const given = ofRow ? { ...params, [ofRow.param]: value } : params
  const title = read?.summary ?? titleOf(satellite)
  const actions = (
    <>
      {links.map((link) => (
        <LinkButton key={link.name} href={linkTo(link.name as OperationName, params) ?? ''}>
          {link.summary}
        </LinkButton>
      ))}
      {forms.map((form) => (
        <Button key={form.name} onClick={() => panel.open(form.name)}>
          {form.summary}
        </Button>
      ))}
    </>
  )
  const heading = page.isEntry ? titleOf(satellite) : title
  return (
    <div className="with-panel">
      <div>
        {!isOfTenant && <PageHeader title={heading}>{actions}</PageHeader>}
        {(isOfTenant || read) && (
          <Section title={title} actions={isOfTenant && actions}>
            {read?.result === 'list' && <RowList key={JSON.stringify(params)} page={page} read={read} />}
            {read?.result === 'value' && <Values key={JSON.stringify(params)} page={page} />}
          </Section>
        )}
      </div>
      {operation && (
        <OperationPanel
          key={JSON.stringify([panel.id, given])}
          page={page}
          operation={operation}
          given={given}
          after={
            parentList && operation.method === 'DELETE' && operation.path === read?.path
              ? linkTo(parentList.name as OperationName, params)
              : undefined
          }
          onClose={panel.close}
        />
      )}
    </div>
  )
}

function Values({ page: { read } }: { page: GenericPage }) {
  const { input, missing } = useRead(read as NonNullable<typeof read>)
  const { data, error, refetch } = useOperation(read?.name as OperationName, input as never, {
    enabled: missing.length === 0,
  })
  return (
    <>
      <Filters read={read as NonNullable<typeof read>} missing={missing} />
      {error && <ProblemView error={error} onRetry={refetch} isCompact={data !== undefined} />}
      {data !== undefined ? <Value value={data} /> : !error && missing.length === 0 && <Skeleton />}
    </>
  )
}
