-- What the host's next release brings; the tour runs it while the service serves.

-- up
alter table notes add column pinned boolean not null default false;

-- down
alter table notes drop column pinned;
