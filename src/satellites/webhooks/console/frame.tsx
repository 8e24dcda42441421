/** Header of a page, below the header of its tenant or of the host, with the path from the subscriptions. */
import type { ReactNode } from 'react'
import { PageHeader } from '../../../console/components/base/page.tsx'
import { hrefOf, type Owner } from './api.ts'
import { text } from './text.ts'

interface HeaderProps {
  readonly owner: Owner
  readonly title: string
  /** The subscription that the page is below; undefined: the page of the subscriptions. */
  readonly parents?: readonly { readonly title: string; readonly href: string }[]
  readonly lead?: ReactNode
  readonly children?: ReactNode
}

export const Header = ({ owner, title, parents, lead, children }: HeaderProps) => (
  <>
    {parents && (
      <nav className="crumbs" aria-label={text.path}>
        <ol>
          {[{ title: owner === null ? text.hostWebhooks : text.webhooks, href: hrefOf(owner) }, ...parents].map(
            ({ title, href }) => (
              <li key={href}>
                <a href={href}>{title}</a>
              </li>
            ),
          )}
        </ol>
      </nav>
    )}
    {owner === null ? (
      <PageHeader title={title} lead={lead}>
        {children}
      </PageHeader>
    ) : (
      <header className="page-header">
        <div>
          <h2 className="part-title">{title}</h2>
          {lead && <div className="lead">{lead}</div>}
        </div>
        {children && <div className="page-actions">{children}</div>}
      </header>
    )}
  </>
)

/** Heading of a part of the page, one level below its header. */
export const PartHeading = ({ owner, children }: { readonly owner: Owner; readonly children: ReactNode }) => {
  const Level = owner === null ? 'h2' : 'h3'
  return <Level className="part-heading">{children}</Level>
}
