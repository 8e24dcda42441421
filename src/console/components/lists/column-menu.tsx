/** The menu of a table's columns, whose entries are loaded when it opens first. `Esc` and a click outside close it. */
import { lazy, Suspense, useId, useState } from 'react'
import { load } from '../../data/load.ts'
import { IconButton } from '../base/button.tsx'
import { text } from '../base/text.ts'
import type { ColumnChoice } from './column-choice.ts'
import type { Column } from './columns.ts'

const Choices = lazy(() => load(() => import('./column-choices.tsx')))

interface ColumnMenuProps<Row> {
  readonly columns: readonly Column<Row>[]
  readonly choice: ColumnChoice<Row>
}

export function ColumnMenu<Row>({ columns, choice }: ColumnMenuProps<Row>) {
  const id = useId()
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <IconButton icon="columns" label={text.columns} popoverTarget={id} />
      <div
        id={id}
        popover="auto"
        className="menu column-menu"
        role="dialog"
        aria-label={text.columns}
        onToggle={({ newState }) => setOpen(newState === 'open')}
      >
        {isOpen && (
          <Suspense>
            <Choices columns={columns as readonly Column<unknown>[]} choice={choice as ColumnChoice<unknown>} />
          </Suspense>
        )}
      </div>
    </>
  )
}
