/** Migrations in the storage of one tenant, with their state. */
import { Section } from '../../../console/components/base/page.tsx'
import { Badge } from '../../../console/components/base/status.tsx'
import { SimpleTable } from '../../../console/components/lists/simple-table.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { text } from './text.ts'

export function MigrationsOfTenant({ id }: { readonly id: string }) {
  const { data } = useOperation('migrations.list', { params: { id } })
  if (!data) return null
  return (
    <Section title={text.migrations}>
      {data.data.length === 0 && <p className="faint">{text.noMigrations}</p>}
      {data.data.length > 0 && (
        <SimpleTable
          label={text.migrations}
          columns={[text.migration, text.state]}
          rows={data.data.map(({ migration, state }) => ({
            key: migration,
            cells: [
              <code key="name">{migration}</code>,
              <Badge key="state" tone={state === 'applied' ? undefined : 'warning'}>
                {text.states[state]}
              </Badge>,
            ],
          }))}
        />
      )}
    </Section>
  )
}
