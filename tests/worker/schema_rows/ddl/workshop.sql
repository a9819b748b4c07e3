USE [Workshop]
GO
SET ANSI_NULLS ON
GO
SET QUOTED_IDENTIFIER ON
GO
CREATE TABLE [dbo].[Customers](
	[CustomerID] [int] IDENTITY(1,1) NOT NULL,
	[Company Name] [nvarchar](80) NOT NULL,
	[City] [nvarchar](40) NULL,
	[IsActive] [bit] NOT NULL CONSTRAINT [DF_Customers_IsActive] DEFAULT ((1)),
 CONSTRAINT [PK_Customers] PRIMARY KEY CLUSTERED
(
	[CustomerID] ASC
)WITH (PAD_INDEX = OFF, IGNORE_DUP_KEY = OFF) ON [PRIMARY]
) ON [PRIMARY]
GO
CREATE TABLE [dbo].[Jobs](
	[JobID] [int] IDENTITY(1,1) NOT NULL PRIMARY KEY,
	[CustomerID] [int] NOT NULL,
	[BayID] [tinyint] NULL,
	[Opened] [datetime2](7) NOT NULL,
	[Estimate] [money] NULL,
	[Token] [uniqueidentifier] ROWGUIDCOL NULL)
GO
CREATE PROCEDURE [dbo].[CloseOldJobs] @days int AS
BEGIN
	SET NOCOUNT ON;
	CREATE TABLE #old (JobID int);
	INSERT INTO #old SELECT JobID FROM dbo.Jobs;
	DROP TABLE #old;
END
GO
IF NOT EXISTS (SELECT * FROM sys.objects WHERE object_id = OBJECT_ID(N'[dbo].[Parts Used]'))
BEGIN
CREATE TABLE [dbo].[Parts Used](
	[JobID] [int] NOT NULL,
	[LineNo] [smallint] NOT NULL,
	[Quantity] [decimal](18, 2) NOT NULL,
	[Price] [smallmoney] NULL,
	[Total]  AS ([Quantity]*[Price]) PERSISTED,
	[Remark] [nvarchar](max) NULL,
 CONSTRAINT [PK_Parts] PRIMARY KEY CLUSTERED ([JobID] ASC, [LineNo] ASC)
)
END
GO
-- Written by hand, without semicolons.
CREATE TABLE Bays (BayID tinyint PRIMARY KEY, LengthCm int CHECK (LengthCm BETWEEN 300 AND 900))
CREATE TABLE Tools (ToolID int PRIMARY KEY, BayID tinyint FOREIGN KEY REFERENCES Bays(BayID), Label varchar(50))
GO
ALTER TABLE [dbo].[Jobs]  WITH CHECK ADD  CONSTRAINT [FK_Jobs_Customers] FOREIGN KEY([CustomerID])
REFERENCES [dbo].[Customers] ([CustomerID])
GO
ALTER TABLE [dbo].[Jobs] CHECK CONSTRAINT [FK_Jobs_Customers]
GO
ALTER TABLE dbo.Jobs ADD CONSTRAINT FK_Jobs_Bays FOREIGN KEY (BayID) REFERENCES dbo.Bays (BayID)
ALTER TABLE dbo.[Parts Used] WITH NOCHECK ADD CONSTRAINT CK_Quantity CHECK (Quantity > 0)
GO
EXEC sys.sp_addextendedproperty @name=N'MS_Description', @value=N'one for each visit', @level0type=N'SCHEMA'
GO
GRANT CREATE TABLE TO [planner]
go
